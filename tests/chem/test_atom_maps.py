"""Guessed atom maps: what a chemist would map the same way, and what must be refused."""

from __future__ import annotations

import pytest
from helpers.case_tables import table
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from chemspec.chem import canonical
from chemspec.chem.reactions import atom_maps, compiled_maps
from chemspec.chem.reactions.atom_maps import guess_maps, map_atoms
from chemspec.chem.reactions.root_align import align_forward

MOLECULES = table("chem/kept_molecules")


@pytest.mark.parametrize(("precursors", "product", "written", "spectators"), table("chem/textbook_maps"))
def test_textbook_reactions(precursors: str, product: str, written: str, spectators: tuple[str, ...]) -> None:
    found = guess_maps(precursors, product)
    assert found is not None and tuple(found[1]) == spectators
    pair = align_forward(*found)
    assert pair is not None
    assert canonical(pair[0]) == canonical(precursors)
    assert canonical(pair[1]) == canonical(product)
    assert pair[1] == written


@pytest.mark.parametrize(("precursors", "product"), [("C(", "C"), ("C", "C("), ("CC", "O.C"), ("CC", "Cl"), ("", "C")])
def test_what_cannot_be_mapped_is_refused(precursors: str, product: str) -> None:
    assert guess_maps(precursors, product) is None


@given(st.sampled_from(MOLECULES), st.sampled_from(MOLECULES), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_atoms_are_paired_once_with_their_like(one: str, other: str, seed: int) -> None:
    precursors = f"{one}.{other}"
    product = Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(one), 1, seed)[0]
    source, target = Chem.MolFromSmiles(precursors), Chem.MolFromSmiles(product)
    match = map_atoms(precursors, product)
    assert match is not None
    assert -1 not in match.origin
    assert len(set(match.origin)) == len(match.origin) == target.GetNumAtoms() == sum(match.given)
    for here, there in enumerate(match.origin):
        assert match.target[there] == here
        mine, yours = target.GetAtomWithIdx(here), source.GetAtomWithIdx(there)
        assert mine.GetAtomicNum() == yours.GetAtomicNum()
    cost = match.cost_at(range(len(match.origin)), range(len(match.target)))
    assert cost == 6  # of one molecule that stays as it is


@pytest.mark.parametrize("around", ["{}", "CO.CC(=O)O.{}.CCN(CC)CC.c1ccncc1"])
def test_compiled_maps_are_those_of_python(around: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled_maps.library() is None:
        pytest.skip("there is no compiled code")
    reactions = [(around.format(row[0]), row[1]) for row in table("chem/textbook_maps")]
    maps = []
    for library in (compiled_maps.library, lambda: None):
        monkeypatch.setattr(compiled_maps, "library", library)
        monkeypatch.setattr(atom_maps, "_FINISHED", {})
        made = [map_atoms(*reaction) for reaction in reactions]
        poor = [_swapped(match) for match in made if match is not None]
        for match in poor:  # which is made better in the same way, too
            atom_maps.improve_map(match)
        maps.append([match and (match.origin, match.target, match.given, match.cost()) for match in made + poor])
    assert maps[0] == maps[1] and None not in maps[0]


def _swapped(match: atom_maps.AtomMap) -> atom_maps.AtomMap:
    """The same map, but that the carbon atoms have each other's origins."""
    carbons = [atom for atom, kind in enumerate(match.right.kinds) if kind[0] == 6 and match.origin[atom] >= 0]
    origins = list(match.origin)
    for atom, other in zip(carbons, [*carbons[1:], *carbons[:1]], strict=True):
        origins[atom] = match.origin[other]
    swapped = atom_maps.AtomMap(match.left, match.right)
    swapped.fill(origins)
    return swapped
