"""A product that few SMILES variants of its flask give comes with a warning, at every door."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from chemspec.review import StepChecker, review_result
from chemspec.review.forward_check import VARIANT_SETTINGS, VARIANTS
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis, Vote

FLASK, ETHER, ALCOHOL = "BrCc1ccccc1.CCO.[H-].[Na+]", "CCOCc1ccccc1", "OCc1ccccc1"


def answer(smiles: str, probability: float, variants: int = 0) -> Hypothesis:
    vote = Vote(float(variants), variants, 1, 0) if variants else None
    return Hypothesis(smiles, smiles, True, (smiles,), (0.0,), 0.0, probability, probability, vote=vote)


class OfVariants:
    """A model that gives the ether from some SMILES variants, and the alcohol from the others."""

    def __init__(self, count: int) -> None:
        self.count, self.calls = count, 0

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        assert settings == VARIANT_SETTINGS
        self.calls += 1
        votes = {ETHER: self.count, ALCOHOL: VARIANTS - self.count}
        answers = tuple(answer(smiles, 0.5, count) for smiles, count in votes.items() if count)
        return [DecodeResult(query, "ok", "", answers) for query in queries]


@pytest.mark.parametrize("count", range(VARIANTS + 1))
def test_few_variants_with_the_product_are_a_warning(count: int) -> None:
    model = OfVariants(count)
    checker = StepChecker(model)
    result = DecodeResult(FLASK, "ok", "", (answer(ETHER, 0.6), answer(ALCOHOL, 0.3)))
    for _ in range(2):
        review = review_result("forward", result, checker)
    assert model.calls == 1, "the counts are cached"
    assert review.suggestions[0].variants == count and review.suggestions[1].variants is None
    assert bool(review.warning) == (count <= 2)
    assert not review.warning or f"only {count} of {VARIANTS}" in review.warning


@pytest.mark.parametrize("probability", [0.95, 0.2])
def test_variants_of_sure_and_of_doubtful_products_are_not_compared(probability: float) -> None:
    model = OfVariants(0)
    review = review_result("forward", DecodeResult(FLASK, "ok", "", (answer(ETHER, probability),)), StepChecker(model))
    assert model.calls == 0 and review.suggestions[0].variants is None


def test_configurations_are_not_compared() -> None:
    """Stereochemistry has laws of its own: the product by law may be another isomer than the model's."""
    flask, right, wrong = "C[C@H](O)CC.CS(=O)(=O)Cl", "CC[C@@H](C)OS(C)(=O)=O", "CC[C@H](C)OS(C)(=O)=O"

    class OneIsomerEach:
        def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
            return [DecodeResult(query, "ok", "", (answer(wrong, 0.6, 4), answer(right, 0.3, 1))) for query in queries]

    review = review_result(
        "forward", DecodeResult(flask, "ok", "", (answer(right, 0.6),)), StepChecker(OneIsomerEach())
    )
    assert review.suggestions[0].variants == VARIANTS and not review.warning
