"""Tests of align.py: aligned texts mean the same molecules, and share more."""

from __future__ import annotations

from difflib import SequenceMatcher
from random import Random

import pytest
from helpers.case_tables import table
from rdkit import Chem

from chemspec.chem import canonical, canonical_parts, drop_stereo
from chemspec.chem.reactions.root_align import align_forward, align_retro
from chemspec.tokenizer import split_smiles

RETRO = tuple(table("chem/mapped_retro"))
# mapped, reagents, what the flask holds, product
FORWARD = tuple(table("chem/mapped_forward"))


def edits(one: str, other: str) -> int:
    matcher = SequenceMatcher(None, split_smiles(one), split_smiles(other), autojunk=False)
    return sum(code != "equal" for code, *_ in matcher.get_opcodes())


def plain(mapped: str) -> str:
    """The canonical form without maps."""
    mol = Chem.MolFromSmiles(mapped)
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)
    return canonical(Chem.MolToSmiles(mol)) or ""


def sides(mapped: str) -> tuple[str, str]:
    """Plain product and plain reactants."""
    reactants, _, product = mapped.split(">")
    return plain(product), plain(reactants)


@pytest.mark.parametrize("mapped", RETRO)
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_aligned_retro_texts_mean_the_same_molecules(mapped: str, seed: int | None) -> None:
    product, reactants = sides(mapped)
    source, target = align_retro(mapped, None if seed is None else Random(seed)) or ("", "")
    assert canonical(source) == product
    assert canonical_parts(target) == canonical_parts(reactants)
    if seed is None:
        assert source == product


@pytest.mark.parametrize(("mapped", "reagents", "flask", "product"), FORWARD)
@pytest.mark.parametrize("seed", [None, 0, 1])
def test_aligned_forward_texts_mean_the_same_molecules(
    mapped: str, reagents: str, flask: str, product: str, seed: int | None
) -> None:
    rng = None if seed is None else Random(seed)
    source, target = align_forward(mapped, reagents.split("."), rng) or ("", "")
    assert canonical_parts(source) == canonical_parts(flask)
    assert canonical(target) == product
    if seed is None:
        assert source == flask


def test_alignment_is_deterministic_for_a_seed_and_differs_between_seeds() -> None:
    texts = [[align_retro(mapped, Random(seed)) for mapped in RETRO] for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    mapped, reagents, *_ = FORWARD[0]
    texts = [[align_forward(mapped, reagents.split("."), Random(seed))] for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("root", range(9))
def test_the_target_starts_at_the_atom_at_which_the_source_starts(root: int) -> None:
    """In this reduction every atom stays and has its own kind of neighbourhood, so the texts tell their root."""

    class Fixed(Random):
        def randrange(self, *args: object, **kwargs: object) -> int:  # type: ignore[override]
            return root

    mapped = RETRO[0]
    product = Chem.MolFromSmiles(mapped.split(">")[2])
    number = product.GetAtomWithIdx(root).GetAtomMapNum()
    reactant = Chem.MolFromSmiles(mapped.split(">")[0])
    here = next(atom.GetIdx() for atom in reactant.GetAtoms() if atom.GetAtomMapNum() == number)
    for mol in (product, reactant):
        for atom in mol.GetAtoms():
            atom.SetAtomMapNum(0)
    source, target = align_retro(mapped, Fixed()) or ("", "")
    assert source == Chem.MolToSmiles(product, rootedAtAtom=root)
    first = Chem.MolFromSmiles(target)
    order = reactant.GetSubstructMatch(first)
    assert order[0] == here


def test_the_product_starts_at_the_first_surviving_atom_of_the_main_reactant() -> None:
    # The ester's methyl is lost; canonical source COC(=O)CC, so the product starts at its oxygen.
    mapped = "C[O:1][C:2](=[O:3])[CH2:4][CH3:5]>>[OH:1][C:2](=[O:3])[CH2:4][CH3:5]"
    source, target = align_forward(mapped) or ("", "")
    assert source == "CCC(=O)OC"
    assert target == "CCC(=O)O"
    mapped = "[CH3:9][O:1][C:2](=[O:3])[CH2:4]Cl>>[CH3:9][O:1][C:2](=[O:3])[CH3:4]"
    assert align_forward(mapped) == ("COC(=O)CCl", "COC(=O)C")


def test_reactants_that_give_nothing_are_left_out_of_retro_targets() -> None:
    mapped = "[CH3:1][OH:2].[Na+].OS(=O)(=O)O>>[CH3:1][O-:2]"
    assert align_retro(mapped) == ("C[O-]", "CO")


@pytest.mark.parametrize(("one", "other", "product"), table("chem/oxygens"))
def test_whose_oxygen_it_is_changes_no_text(one: str, other: str, product: str) -> None:
    for seed in range(20):
        assert align_retro(f"{one}>>{product}", Random(seed)) == align_retro(f"{other}>>{product}", Random(seed))


def test_a_reactant_that_gives_hardly_an_atom_is_written_by_its_canonical_smiles() -> None:
    oxidant = "O[O:3]C(=O)c1cccc(Cl)c1", "OO[C:9](=[O:3])c1cccc(Cl)c1"
    for peracid in oxidant:
        pair = align_retro(f"[CH3:1][S:2][CH3:4].{peracid}>>[CH3:1][S:2](=[O:3])[CH3:4]", Random(0))
        assert pair is not None and "O=C(OO)c1cccc(Cl)c1" in pair[1].split(".")


def test_without_stereo_neither_side_has_any() -> None:
    for mapped in RETRO:
        source, target = align_retro(mapped, Random(3), stereo=False) or ("", "")
        assert not set("@/\\") & set(source + target)
        product, reactants = sides(mapped)
        assert canonical(source) == drop_stereo(product)
        assert canonical(target) == drop_stereo(reactants)


@pytest.mark.parametrize("mapped", [*table("chem/unusable_maps"), "[CH3:1]" + "C" * 20_000 + ">>[CH3:1]C"])
def test_unusable_maps_give_none(mapped: str) -> None:
    assert align_retro(mapped) is None
    assert align_forward(mapped) is None


def test_an_unreadable_reagent_gives_none() -> None:
    assert align_forward(FORWARD[0][0], ["C(("]) is None


def test_agents_between_the_arrows_are_ignored() -> None:
    with_agents = RETRO[0].replace(">>", ">[Pd].CCO>")
    assert align_retro(with_agents) == align_retro(RETRO[0])


def test_aligned_texts_need_fewer_edits_than_canonical_ones() -> None:
    aligned = [align_retro(mapped, Random(0)) or ("", "") for mapped in RETRO]
    assert sum(edits(*pair) for pair in aligned) <= sum(edits(*sides(mapped)) for mapped in RETRO)


def test_stereochemistry_is_kept_unless_it_is_left_out() -> None:
    mapped = (
        "[CH3:1][C@H:2]([NH2:3])[C:4](=[O:5])[OH:6].[CH3:7][OH:8]>>[CH3:1][C@H:2]([NH2:3])[C:4](=[O:5])[O:8][CH3:7]"
    )
    kept, dropped = align_retro(mapped), align_retro(mapped, stereo=False)
    assert kept and all("@" in side for side in kept)
    assert dropped and not any("@" in side for side in dropped)
