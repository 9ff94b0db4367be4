"""Where a model hesitated: the probabilities are those of the answer, and the other way is the model's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.small import QUERIES, tiny_folder

import chemspec
from chemspec.engine.engine import Engine, installed_models
from chemspec.engine.forks import find_forks, token_alternatives, token_log_prob
from chemspec.tokenizer import Tokenizer
from chemspec.types import Scores

LIDOCAINE = "CCN(CC)CC(=O)Nc1c(C)cccc1C"
pytestmark = pytest.mark.skipif("retro-50k" not in {one.name for one in installed_models()}, reason="no models")


def test_a_token_outside_the_candidates_has_the_log_prob_of_the_last_one() -> None:
    scores = Scores(np.array([7, 4, 9]), np.array([-0.1, -2.0, -3.5]))
    assert [token_log_prob(scores, token) for token in (7, 4, 9, 5)] == [-0.1, -2.0, -3.5, -3.5]


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


class Blanks:
    """A tokenizer some of whose tokens differ in a blank alone, which their texts leave out."""

    def __init__(self, inner: Tokenizer) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __len__(self) -> int:
        return len(self.inner)

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple("Br" if text in "#S" else text for text in self.inner.tokens)

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        return [self.tokens[self.inner.tokens.index(text)] for text in self.inner.token_texts(ids)]


def test_tokens_with_one_text_are_told_apart(tmp_path: Path) -> None:
    """Else the odds are those of another answer."""
    plain = Engine.load(tiny_folder(tmp_path / "retro"), threads=1)
    blanks = replace(plain, tokenizer=Blanks(plain.tokenizer))  # type: ignore[arg-type]
    mixed = 0
    for query in QUERIES:
        (answer,) = blanks.predict(query, n=1, decoder="greedy", max_len=30).hypotheses
        odds = token_alternatives(blanks, query, answer)
        for token, told, log_prob in zip(answer.tokens, odds, answer.token_log_probs, strict=False):
            assert told[token] == pytest.approx(exp(log_prob), abs=1e-4)
        (same,) = plain.predict(query, n=1, decoder="greedy", max_len=30).hypotheses
        mixed += same.tokens != answer.tokens
        assert find_forks(blanks, query, answer) == find_forks(plain, query, same)
    assert mixed
