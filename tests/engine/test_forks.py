"""Where a model hesitated: the probabilities are those of the answer, and the other way is the model's own."""

from __future__ import annotations

from math import exp

import pytest

import chemspec
from chemspec.engine.engine import installed_models
from chemspec.engine.forks import find_forks, token_alternatives

LIDOCAINE = "CCN(CC)CC(=O)Nc1c(C)cccc1C"
pytestmark = pytest.mark.skipif("retro-50k" not in {one.name for one in installed_models()}, reason="no models")


def test_forks_are_the_doubtful_tokens_and_lead_to_other_molecules() -> None:
    engine = chemspec.load("retro-50k")
    first, second, *_ = engine.predict(LIDOCAINE, n=5, distinct=True).hypotheses
    found = find_forks(engine, LIDOCAINE, first)
    assert len(found) == 2 and len({first.canonical, *(one.smiles for one in found)}) == 3
    for one in found:
        assert one.token == first.tokens[one.position] != one.alternative
        assert one.probability == pytest.approx(exp(first.token_log_probs[one.position]), abs=1e-4)
        assert one.probability + one.alternative_probability <= 1 + 1e-6
    assert second.canonical in {one.smiles for one in found}  # the second answer is the first's other way


def test_odds_along_an_answer_are_those_of_its_tokens() -> None:
    engine = chemspec.load("retro-50k")
    (answer,) = engine.predict(LIDOCAINE, n=1, decoder="greedy").hypotheses
    odds = token_alternatives(engine, LIDOCAINE, answer)
    assert len(odds) == len(answer.token_log_probs)
    for token, told, log_prob in zip((*answer.tokens, "end"), odds, answer.token_log_probs, strict=True):
        assert max(told, key=told.__getitem__) == token
        assert told[token] == pytest.approx(exp(log_prob), abs=1e-4)
