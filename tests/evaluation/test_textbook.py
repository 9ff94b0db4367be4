"""The README's five textbook reactions, forward and backward, with the shipped weights."""

from __future__ import annotations

import pytest
from helpers.case_tables import table
from helpers.small import shipped

from chemspec import chem
from chemspec.settings import DecodeSettings

# name, what is in the flask, main product
TEXTBOOK = table("evaluation/textbook")
# product, sets of reactants
PRECURSORS = table("evaluation/precursors")


@pytest.mark.weights
def test_forward_is_right_at_first() -> None:
    results = shipped("forward").predict([flask for _, flask, _ in TEXTBOOK], DecodeSettings(n=5))
    for (name, _, product), result in zip(TEXTBOOK, results, strict=True):
        assert result.hypotheses[0].canonical == chem.canonical(product), name


@pytest.mark.weights
@pytest.mark.parametrize("name", ["retro", "retro-50k"])
def test_retro_has_a_plausible_set_among_five(name: str) -> None:
    results = shipped(name).predict([product for product, _ in PRECURSORS], DecodeSettings(n=5))
    for (product, sets), result in zip(PRECURSORS, results, strict=True):
        wanted = {chem.canonical(precursors) for precursors in sets}
        assert wanted & {answer.canonical for answer in result.hypotheses}, product
