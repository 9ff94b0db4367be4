"""Tests of changes.py: textbook reactions, agreement with atom maps, limits."""

from __future__ import annotations

import csv
import gzip
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import DATA
from rdkit import Chem

from chemspec.chem.reaction_center import Changes, changes

# Reactants, product, atoms that change in both. Counted by hand.
TEXTBOOK = {
    "amide": ("CC(=O)O.NCC", "CC(=O)NCC", (1, 3, 4), (1, 3)),
    "fischer ester": ("CC(=O)O.OCC", "CC(=O)OCC", (1, 3, 4), (1, 3)),
    "hydrolysis": ("CC(=O)OCC", "CC(=O)O", (3, 4, 5), (3,)),
    "suzuki": ("Brc1ccncc1.OB(O)c1ccccc1", "c1ccc(-c2ccncc2)cc1", (0, 1, 7, 8, 9, 10), (3, 4)),
    "mitsunobu keeps the phenol's oxygen": ("OCC.Oc1ccccc1", "CCOc1ccccc1", (0, 1, 3), (1, 2)),
    "reduction": ("CC(=O)C", "CC(O)C", (1, 2), (1, 2)),
    "boc off": ("CC(C)(C)OC(=O)NCC", "NCC", (0, 1, 2, 3, 4, 5, 6, 7), (0,)),
    "n-oxide, a charge": ("c1ccncc1.OO", "[O-][n+]1ccccc1", (3, 6, 7), (0, 1)),
    "nothing": ("CCO", "CCO", (), ()),
}


@pytest.mark.parametrize("name", TEXTBOOK)
def test_textbook_reactions(name: str) -> None:
    reactants, product, before, after = TEXTBOOK[name]
    found = changes(reactants, product, seconds=5)
    assert found is not None
    assert found.product_atoms == after
    assert found.reactant_atoms == before


def test_agents_give_nothing_and_do_not_change() -> None:
    alone = changes("CC(=O)O.NCC", "CC(=O)NCC", seconds=5)
    with_agents = changes("CC(=O)O.NCC.CN(C)C=O.CCN(CC)CC.O", "CC(=O)NCC", seconds=5)
    assert alone == with_agents
    assert alone is not None and alone.mapped == 6


def test_atoms_of_unknown_origin_change() -> None:
    assert changes("CC", "CCBr", seconds=5) == Changes((1,), (1, 2), 2)
    assert changes("F", "O", seconds=5) == Changes((), (0,), 0)


def test_equal_chains_are_not_crossed() -> None:
    # The new chain must not be taken for a piece of one that was there.
    # (A collection of garbage in this thread counts, hence the seconds.)
    found = changes("CCCCCCCCNCCCCCCCC.OCCCCl", "CCCCCCCCN(CCCO)CCCCCCCC", seconds=5)
    assert found is not None and found.product_atoms == (8, 9)
    found = changes("BrCCCCCBr.Nc1ccccc1", "c1ccc(N2CCCCC2)cc1", seconds=5)
    assert found is not None and found.product_atoms == (4, 5, 9)


@pytest.mark.parametrize(("left", "right"), [("", "C"), ("C", ""), ("C1", "C"), ("C", "x"), ("C C", "C")])
def test_unreadable_is_none(left: str, right: str) -> None:
    assert changes(left, right) is None


def test_time_is_limited() -> None:
    start = time.thread_time()
    assert changes("C" * 2900, "C" * 2900) is None  # too large: not even begun
    for kind in ("C" * 240 + "N", "C1CC1" * 80, "c1ccc2ccccc2c1" * 25):
        changes(kind, kind[::-1].replace("(", "").replace(")", ""))
        changes(kind, kind)
    assert time.thread_time() - start < 6 * 0.4
    assert changes("CCO", "CC=O", seconds=0) is None


@given(st.text(max_size=30), st.text(alphabet="CNOcn1=#()[]+-.@H2Br%*", max_size=30))
def test_no_text_makes_it_raise(left: str, right: str) -> None:
    changes(left, right)
    changes(right, left)
    changes(right, right)


@given(st.randoms(use_true_random=False))
def test_order_of_writing_does_not_matter(rng: random.Random) -> None:
    reactants, product = "CC(C)(C)OC(=O)N1CCC(O)CC1.Oc1ccc(F)cc1", "CC(C)(C)OC(=O)N1CCC(Oc2ccc(F)cc2)CC1"
    mols = [Chem.MolFromSmiles(smiles) for smiles in (reactants, product)]
    seed = rng.randrange(1000)
    written = [Chem.MolToRandomSmilesVect(mol, 1, seed)[0] for mol in mols]
    found = changes(*written, seconds=5)
    assert found is not None
    again = Chem.MolFromSmiles(written[1])
    changed = sorted(again.GetAtomWithIdx(atom).GetSymbol() for atom in found.product_atoms)
    assert changed == ["C", "O"] and found.mapped == again.GetNumAtoms()


# --- against atom maps ---------------------------------------------------------------------------


def _plain(side: str) -> tuple[str, list[int], Any]:
    """SMILES without maps, the map number of each of its atoms, the molecule."""
    mol = Chem.MolFromSmiles(side)
    maps = [atom.GetAtomMapNum() for atom in mol.GetAtoms()]
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)
    smiles = Chem.MolToSmiles(mol)
    order = [int(k) for k in mol.GetProp("_smilesAtomOutputOrder").strip("[],").split(",")]
    return smiles, [maps[k] for k in order], Chem.MolFromSmiles(smiles)


def _states(mol: Any, maps: list[int]) -> dict[int, Any]:
    found = {}
    for atom, number in zip(mol.GetAtoms(), maps, strict=True):
        bonds = sorted(
            (maps[bond.GetOtherAtomIdx(atom.GetIdx())], bond.GetBondTypeAsDouble()) for bond in atom.GetBonds()
        )
        found[number] = bonds, atom.GetFormalCharge(), atom.GetTotalNumHs()
    return found


def _score(rows: list[str]) -> float:
    """The share of mapped reactions whose product shows the same atoms changed, but for symmetry."""
    same = 0
    for mapped in rows:
        (left, before, start), (right, after, end) = map(_plain, mapped.split(">>"))
        old, new = _states(start, before), _states(end, after)
        truth = [k for k, number in enumerate(after) if old.get(number) != new[number]]
        found = changes(left, right, seconds=5)
        assert found is not None
        ranks = list(Chem.CanonicalRankAtoms(end, breakTies=False))
        same += sorted(ranks[k] for k in truth) == sorted(ranks[k] for k in found.product_atoms)
    return same / len(rows)


@pytest.mark.skipif(not (DATA / "retro_test.csv.gz").is_file(), reason="needs the reaction data; set CHEMSPEC_DATA")
def test_agrees_with_atom_maps() -> None:
    with gzip.open(DATA / "retro_test.csv.gz", "rt", encoding="utf-8") as file:
        rows = [row["mapped_rxn"] for row in csv.DictReader(file) if row["mapped_rxn"]]
    assert _score(random.Random(0).sample(rows, 200)) > 0.94
