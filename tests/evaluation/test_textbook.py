"""The README's five textbook reactions, forward and backward, with the shipped weights."""

from __future__ import annotations

import pytest
from case_tables import table

from chemspec import chem
from chemspec.engine.engine import Engine, installed_models
from chemspec.settings import DecodeSettings

# name, what is in the flask, main product
TEXTBOOK = table("evaluation/textbook")
# product, sets of reactants
PRECURSORS = table("evaluation/precursors")


def _engine(name: str) -> Engine:
    if name not in {folder.name for folder in installed_models()}:
        pytest.skip(f"no {name} model in assets/models")
    return Engine.load(name, threads=1)


@pytest.mark.weights
def test_forward_is_right_at_first() -> None:
    results = _engine("forward").predict([flask for _, flask, _ in TEXTBOOK], DecodeSettings(n=5))
    for (name, _, product), result in zip(TEXTBOOK, results, strict=True):
        assert result.hypotheses[0].canonical == chem.canonical(product), name


@pytest.mark.weights
@pytest.mark.parametrize("name", ["retro", "retro-50k"])
def test_retro_has_a_plausible_set_among_five(name: str) -> None:
    results = _engine(name).predict([product for product, _ in PRECURSORS], DecodeSettings(n=5))
    for (product, sets), result in zip(PRECURSORS, results, strict=True):
        wanted = {chem.canonical(precursors) for precursors in sets}
        assert wanted & {answer.canonical for answer in result.hypotheses}, product
