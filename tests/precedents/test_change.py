"""Two reactions have one number exactly if they make the same change."""

from __future__ import annotations

import pytest
from helpers.case_tables import table
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem

from chemspec.precedents.change import change_of, change_of_mapped

AMIDE = ("CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1")
# Of each pair: reactions that differ in what does not matter, or matters only to `close`, or to both.
PAIRS = table("precedents/changes")


@pytest.mark.parametrize(("one", "other", "same"), PAIRS)
def test_what_is_the_same_change(one: tuple[str, str], other: tuple[str, str], same: str) -> None:
    a, b = change_of(*one), change_of(*other)
    assert a is not None and b is not None
    assert ("close" if a.close == b.close else "wide" if a.wide == b.wide else "") == same


@given(st.randoms(use_true_random=False))
def test_spelling_and_order_do_not_count(rng) -> None:  # type: ignore[no-untyped-def]
    molecules = [Chem.MolFromSmiles(part) for part in AMIDE[0].split(".")]
    parts = [Chem.MolToSmiles(mol, canonical=False, rootedAtAtom=rng.randrange(mol.GetNumAtoms())) for mol in molecules]
    rng.shuffle(parts)
    assert change_of(".".join(parts), AMIDE[1]) == change_of(*AMIDE)


@pytest.mark.parametrize("product", ["O=CC", "C(C)=O", "CC=O"])
def test_the_order_of_the_product_does_not_count(product: str) -> None:
    assert change_of("CCO", product) == change_of("CCO", "CC=O")


def test_agents_take_no_part() -> None:
    plain = change_of(*AMIDE)
    full = change_of(f"{AMIDE[0]}.CCN(CC)CC.ClCCl", AMIDE[1])
    assert plain is not None and full is not None
    assert full == plain


def test_atom_maps_that_keep_the_other_oxygen_mean_the_same() -> None:
    """Of an acid, some makers of maps keep the one oxygen and some the other."""
    kept = "[CH3:1][C:2](=[O:3])[OH:4].[NH2:5][CH3:6]>>[CH3:1][C:2](=[O:3])[NH:5][CH3:6]"
    other = "[CH3:1][C:2](=[O:4])[OH:3].[NH2:5][CH3:6]>>[CH3:1][C:2](=[O:3])[NH:5][CH3:6]"
    assert change_of_mapped(kept) == change_of_mapped(other) == change_of("CC(=O)O.CN", "CNC(C)=O")


def test_numbers_are_the_same_in_every_process() -> None:
    """They are written into files; that they change is a new format of the index."""
    found = change_of(*AMIDE)
    assert found is not None
    assert (found.wide, found.close) == (599941235291395257, 12922740121086878476)


@pytest.mark.parametrize(
    ("reactants", "product"),
    [("CCO", "CCO"), ("", "C"), ("C", ""), ("C(", "CC"), ("CC", "xx"), ("[Na+].[Cl-]", "CC"), ("C" * 4000, "CC")],
)
def test_no_change_where_nothing_can_be_told(reactants: str, product: str) -> None:
    assert change_of(reactants, product) is None


@pytest.mark.parametrize(
    "mapped", ["", ">>", "CC>>CC", "C>C>C", "[CH4:1]>>[CH4:1]", "[CH4:1]>>[NH3:1]", "x>>y", "C>>C>>C"]
)
def test_no_change_where_maps_cannot_be_used(mapped: str) -> None:
    assert change_of_mapped(mapped) is None
