"""Guiding the cut: what a step has to do, said as text."""

from __future__ import annotations

import pytest
from helpers.case_tables import table
from hypothesis import given
from hypothesis import strategies as some

from chemspec import chem
from chemspec.chem.reactions import guide
from chemspec.chem.reactions.step_class import families

LIDOCAINE = "CCN(CC)CC(=O)Nc1c(C)cccc1C"  # canonical
AMIDE = "CCN(CC)CC(=O)Cl.Cc1cccc(C)c1N"
ALKYLATION = "CCNCC.Cc1cccc(C)c1NC(=O)CCl"


def fits(text: str, reactants: str, target: str = LIDOCAINE) -> bool:
    return guide.guide_predicate(guide.parse_guide(text), chem.canonical(target) or "")(chem.canonical(reactants) or "")


@pytest.mark.parametrize(("text", "amide", "alkylation"), table("chem/guided_cuts"))
def test_bonds_and_classes(text: str, amide: bool, alkylation: bool) -> None:
    assert (fits(text, AMIDE), fits(text, ALKYLATION)) == (amide, alkylation)


def test_of_bonds_that_symmetry_makes_alike_any_may_break_and_all_have_to_be_kept_to_stop_it() -> None:
    target = "O=C(NCCNC(=O)c1ccccc1)c1ccccc1"  # two amides, alike
    step = "NCCNC(=O)c1ccccc1.O=C(Cl)c1ccccc1"
    first, second = "C1-N2", "N5-C6"
    assert fits(f"break {first}", step, target) and fits(f"break {second}", step, target)
    assert fits(f"keep {first}", step, target) and fits(f"keep {second}", step, target)
    assert fits(f"break {first}; keep {second}", step, target)
    assert not fits(f"keep {first}, {second}", step, target)


def test_a_step_that_cannot_be_read_does_not_fit() -> None:
    assert not fits("keep C6-N8", "no molecule")


@pytest.mark.parametrize(("text", "told"), table("chem/guide_faults"))
def test_what_cannot_be_understood_is_told(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        fits(text, AMIDE)


@given(
    some.lists(some.sampled_from(sorted(guide.bonds_by_name(LIDOCAINE))), unique=True),
    some.lists(some.sampled_from(sorted(guide.bonds_by_name(LIDOCAINE))), unique=True),
    some.lists(some.sampled_from(sorted(families())), unique=True),
)
def test_a_guide_is_its_text(cut: list[str], keep: list[str], only: list[str]) -> None:
    made = guide.Guide(tuple(cut), tuple(keep), tuple(only))
    assert guide.parse_guide(str(made)) == made
