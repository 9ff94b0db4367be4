"""What a review says of an answer."""

from __future__ import annotations

import pytest
from case_tables import table

from chemspec import chem
from chemspec.chem.stoichiometry import strategy_of_step
from chemspec.precedents import Conditions, Found
from chemspec.review.suggestions import Suggestion
from chemspec.types import Hypothesis


@pytest.mark.parametrize(("flask", "product", "recorded", "reagents"), table("review/recorded_reagents"))
def test_recorded_reagents_are_of_the_class_of_the_flask(
    flask: str, product: str, recorded: tuple[str, ...], reagents: str
) -> None:
    flask, product = str(chem.canonical(flask)), str(chem.canonical(product))
    answer = Hypothesis(product, product, True, (product,), (0.0,), 0.0, 0.9)
    found = Found(conditions=tuple(Conditions(smiles, 1) for smiles in recorded))
    card = Suggestion("forward", flask, 1, answer, strategy_of_step(flask, product), precedents=found)
    assert card.reagents[0] == reagents
