"""Products that take a reactant more than once, and salts, are told from products that cannot be made."""

from __future__ import annotations

import pytest
from helpers.case_tables import table

from chemspec import chem
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.reactions import stoichiometry
from chemspec.chem.reactions.step_class import NO_CLASS, classify_step


def sides(reaction: str) -> tuple[str, str]:
    left, right = (chem.canonical(side) for side in reaction.split(">>"))
    assert left and right
    return left, right


@pytest.mark.parametrize(("reaction", "copies", "name"), table("chem/taken_again"))
def test_reactants_that_a_product_takes_again_are_counted(reaction: str, copies: tuple[str, ...], name: str) -> None:
    left, right = sides(reaction)
    assert stoichiometry.missing_elements(left, right) == {}
    assert stoichiometry.extra_copies(left, right) == copies
    change = stoichiometry.classify_whole_step(left, right)
    assert change is not None and change.name == name and not change.unlikely_change
    atoms = mol_from_smiles(left).GetNumAtoms()
    assert max((*change.origin, *change.before)) < atoms
    assert (-1 in change.origin) == bool(copies)


@pytest.mark.parametrize(("reaction", "lacking"), table("chem/missing_elements"))
def test_what_no_amount_supplies_is_still_missing(reaction: str, lacking: dict[str, int]) -> None:
    assert stoichiometry.missing_elements(*sides(reaction)) == lacking


@pytest.mark.parametrize(("reaction", "moves", "shifted"), table("chem/moved_carbons"))
def test_a_carbon_that_moves_and_a_bond_beside_the_leaving_group_are_noticed(
    reaction: str, moves: bool | None, shifted: bool | None
) -> None:
    change = classify_step(*sides(reaction))
    assert change is not None
    assert moves in (None, change.breaks_carbon_bond) and shifted in (None, change.bond_next_to_leaving_group)


@pytest.mark.parametrize(("reaction", "sentence"), table("chem/skeletons"))
def test_a_skeleton_that_would_break_is_noticed(reaction: str, sentence: str) -> None:
    change = stoichiometry.classify_whole_step(*sides(reaction))
    assert change is not None and change.unlikely_change == sentence
    assert (change.name == NO_CLASS) == ("ring" in sentence)
