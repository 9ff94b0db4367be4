"""A forced beginning: exact continuations, with any drafts, as of naive decoders that are made to begin so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.small import QUERIES, tiny_folder
from helpers.table import Table, run
from hypothesis import given
from hypothesis import strategies as st

from chemspec.decode.beam import beam_search, greedy_search
from chemspec.decode.forced import force_beginning
from chemspec.draft.base import NoDrafts
from chemspec.draft.windows import Windows
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings
from chemspec.testing import naive_beam, naive_greedy
from chemspec.types import FinishedSequence, Prefix

TOKENS = st.integers(4, 9)
FORCED = st.lists(st.integers(4, 9), min_size=1, max_size=4).map(tuple)


class Begun:
    """A table whose sequences all begin so."""

    def __init__(self, table: Table, forced: tuple[int, ...]) -> None:
        self._table, self._forced = table, forced

    def log_probs(self, source: Prefix, prefix: Prefix) -> Sequence[float]:
        return self._table.log_probs(source, (prefix[0], *self._forced, *prefix[1:]))


def expected(table: Table, source: Prefix, forced: tuple[int, ...], answers: list[FinishedSequence]) -> list[Any]:
    """The answers of a naive decoder on `Begun`, with the forced tokens and their own log-probs in front."""
    own = [table.log_probs(source, (1, *forced[:end]))[token] for end, token in enumerate(forced)]
    return [
        ((*forced, *answer.tokens), pytest.approx((*own, *answer.log_probs), abs=1e-4), answer.ended)
        for answer in answers
    ]


@given(st.integers(0, 10_000), FORCED, st.lists(TOKENS, min_size=1, max_size=6).map(tuple), st.integers(1, 4))
def test_continuations_are_those_of_naive_decoders(
    seed: int, forced: tuple[int, ...], source: tuple[int, ...], width: int
) -> None:
    table = Table(seed, copying=2.0)
    begun = Begun(table, forced)
    room = 12 - len(forced)
    naive = naive_beam(begun, source, width, room) if width > 1 else [naive_greedy(begun, source, room)]

    def decoder(_: Any) -> Any:
        return force_beginning(
            beam_search(width=width, max_len=room) if width > 1 else greedy_search(max_len=room), forced
        )

    for drafter in (NoDrafts(), Windows(length=3)):
        ((answers,), _) = run(decoder, [source], table, drafter, max_len=12)
        found = [(answer.tokens, answer.log_probs, answer.ended) for answer in answers]
        assert found == expected(table, source, forced, naive)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine.load(tiny_folder(tmp_path_factory.mktemp("model"), seed=4), threads=1)


@pytest.mark.parametrize("decoder", ["greedy", "beam", "sample"])
def test_predictions_begin_so_with_the_same_bits_for_any_drafts_and_batch(engine: Engine, decoder: str) -> None:
    how: dict[str, Any] = {"decoder": decoder, "n": 1 if decoder == "greedy" else 4, "max_len": 16, "prefix": "CC(=O)"}
    plain = engine.predict(QUERIES, DecodeSettings(**how, drafter="none", batch_size=1))
    drafted = engine.predict(QUERIES, DecodeSettings(**how, drafter="copy", drafting="fixed", batch_size=4))
    assert [one.hypotheses for one in plain] == [one.hypotheses for one in drafted]
    for result in plain:
        assert result.hypotheses and all(one.tokens[:6] == tuple("CC(=O)") for one in result.hypotheses)
        assert not any(one.calibrated for one in result.hypotheses)
    assert sum(len(one.trace.passes) for one in drafted) <= sum(len(one.trace.passes) for one in plain)


def test_the_scores_are_those_of_free_decoding(engine: Engine) -> None:
    free = engine.predict("CCO", n=5, max_len=12, distinct=False).hypotheses
    for answer in free:
        cut = answer.tokens[:3]
        forced = engine.predict("CCO", n=5, max_len=12, distinct=False, prefix="".join(cut)).hypotheses
        same = next(one for one in forced if one.tokens == answer.tokens)
        assert same.log_prob == pytest.approx(answer.log_prob, abs=1e-5)
        assert forced[0].log_prob >= same.log_prob - 1e-6


def test_no_token_of_the_prefix_is_impossible_for_being_improbable(engine: Engine) -> None:
    (answer,) = engine.predict("CCO", n=1, decoder="greedy", prefix="[Na+].Br/", max_len=8).hypotheses
    assert answer.tokens[:4] == ("[Na+]", ".", "Br", "/") and math.isfinite(answer.log_prob)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prefix": "CX"}, "X"),
        ({"prefix": "[Uus]C"}, r"\[Uus\]"),
        ({"prefix": "C" * 20, "max_len": 20}, "20 tokens"),
        ({"prefix": "C", "length_penalty": 1.0}, "length penalty"),
        ({"prefix": "C", "rules": "onmt"}, "other rules"),
        ({"prefix": "C", "decoder": "sbs"}, "greedy, beam or sample"),
        ({"prefix": 3}, "must be a str"),
    ],
)
def test_a_prefix_that_cannot_be_is_refused(engine: Engine, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        engine.predict("CCO", **options)


@pytest.mark.slow  # a shipped model
def test_a_chemist_asks_for_the_acid_chloride(tmp_path: Path) -> None:
    engine = Engine.load("retro", threads=1)
    for answer in engine.predict("CC(=O)Nc1ccc(O)cc1", n=3, prefix="CC(=O)Cl.").hypotheses:
        assert answer.smiles.startswith("CC(=O)Cl.") and not answer.calibrated
