"""Ions find their counterions, and a flask keeps the order in which it was typed."""

from __future__ import annotations

import pytest
from helpers.case_tables import table
from helpers.reading import read
from hypothesis import given
from hypothesis import strategies as st

from chemspec import chem
from chemspec.chem.molecules.salts import balance_charges, charge_of, group_salts, in_typed_order, normal_form

FLASK = ["CCO", "Nc1ccccc1", "[Na+]", "[K+]", "[OH-]", "[Cl-]", "O=C([O-])[O-]", "[Cu+2]", "CC(=O)[O-]", "[Al+3]"]


@given(st.lists(st.sampled_from(FLASK), min_size=1, max_size=9))
def test_every_molecule_is_in_one_group_and_every_salt_is_neutral(parts: list[str]) -> None:
    groups = group_salts(parts)
    assert sorted(place for group in groups for place in group) == list(range(len(parts)))
    assert [group[0] for group in groups] == sorted(group[0] for group in groups)
    for group in groups:
        assert len(group) == 1 or sum(charge_of(parts[place]) for place in group) == 0
    alone = [charge_of(parts[group[0]]) for group in groups if len(group) == 1]
    assert not (any(left == 1 for left in alone) and any(left == -1 for left in alone))


@pytest.mark.parametrize(("flask", "groups"), table("chem/salts_of_flasks"))
def test_salts_of_known_flasks(flask: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert tuple(group_salts(flask.split())) == groups


@given(st.permutations([*FLASK[:5], "ClCCl"]))
def test_the_order_is_that_of_the_text_with_salts_in_one_piece(parts: list[str]) -> None:
    typed = ".".join(parts)
    found = read(typed, "forward")
    assert chem.canonical(found.ordered) == found.smiles
    neutral = [part for part in parts if not charge_of(part)]
    assert [part for part in found.ordered.split(".") if not charge_of(part)] == neutral
    assert in_typed_order(typed, found.smiles) == found.ordered


def test_lists_of_names_and_mapped_reactions_keep_their_order() -> None:
    for text, order in (
        ("aniline, CC(=O)Cl, K2CO3, DCM", "Nc1ccccc1.CC(=O)Cl.O=C([O-])[O-].[K+].[K+].ClCCl"),
        ("[NH2:4]c1ccccc1.[CH3:1][C:2](=[O:3])Cl>>[CH3:1][C:2](=[O:3])[NH:4]c1ccccc1", "Nc1ccccc1.CC(=O)Cl"),
    ):
        assert read(text, "forward").ordered == order


def test_a_reaction_is_read_with_both_sides() -> None:
    text = "Nc1ccccc1.CC(=O)Cl>ClCCl>CC(=O)Nc1ccccc1"
    whole = "Nc1ccccc1.CC(=O)Cl.ClCCl>>CC(=O)Nc1ccccc1"
    assert read(text, "forward").reaction == read(text, "retro").reaction == whole
    half = read("CCO>>", "forward")
    assert half.reaction == ""
    bad = read("CCO>>C(", "forward")  # the half that is asked about can be read
    assert bad.reaction == ""
    assert any(note.startswith("the other side cannot be read: ") for note in bad.notes)
    assert len(half.notes) == 1


@pytest.mark.parametrize(("reagents", "whole"), table("chem/counted_ions"))
def test_ions_stand_as_often_as_their_charges_need(reagents: str, whole: str) -> None:
    assert balance_charges(reagents) == whole
    assert normal_form(whole) == normal_form(reagents)
