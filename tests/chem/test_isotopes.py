"""Isotope labels are taken off and put back where the atoms went."""

from __future__ import annotations

import pytest
from helpers.case_tables import table

from chemspec import chem
from chemspec.chem.reactions.isotopes import has_labels, put_labels_back, strip_labels


@pytest.mark.parametrize(("task", "query", "answer", "labelled"), table("chem/isotopes"))
def test_labels_follow_their_atoms(task: str, query: str, answer: str, labelled: str) -> None:
    canonical, given = (str(chem.canonical(text)) for text in (query, answer))
    assert not has_labels(strip_labels(canonical)) and strip_labels(canonical) == chem.canonical(
        strip_labels(canonical)
    )
    assert put_labels_back(canonical, given, retro=task == "retro") == chem.canonical(labelled)


def test_both_sides_of_a_reaction_lose_their_labels() -> None:
    assert strip_labels("[2H]C([2H])([2H])I.CN>>CN[13CH3]") == "CI.CN>>CNC"
    assert strip_labels("[2H][2H]") == "[H][H]" and strip_labels("[2H]O[2H]") == "O"


def test_what_has_no_label_stays_to_the_letter() -> None:
    for text in ("OCC", "C[C@H](F)Cl", "[Na+].[Cl-]", "[C:12]"):
        assert not has_labels(text) and strip_labels(text) == text
    assert put_labels_back("CCO", "CC=O", retro=False) == "CC=O"


def test_a_stereocentre_that_its_label_makes_goes_with_it() -> None:
    assert strip_labels(str(chem.canonical("[2H][C@H](O)c1ccccc1"))) == "OCc1ccccc1"
