"""Constraints of one's own: exact with any drafter, and equal to a naive search under the same constraint."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from helpers.small import QUERIES

from chemspec.decode.constrained import constrained_decoder
from chemspec.decode.registry import DECODERS
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings
from chemspec.testing import naive_beam, naive_greedy
from chemspec.tokenizer import EOS
from chemspec.types import PluginError

MAX_LEN = 14


def at_least_five_without_repeats(source: tuple[int, ...], written: tuple[int, ...], log_probs: Any) -> Any:
    """No end before five tokens, no token twice in a row, and those of the query at a lower cost."""
    if len(written) < 5:
        log_probs[EOS] = -math.inf
    if written:
        log_probs[written[-1]] = -math.inf
    log_probs[[token for token in range(4, len(log_probs)) if token not in source]] -= 1.5
    return log_probs


class Constrained:
    """The same as a table of scores for the naive decoders."""

    def __init__(self, engine: Engine) -> None:
        from chemspec.testing import naive_log_probs

        model: Any = engine.backend
        self.read = lambda source, prefix: naive_log_probs(model.model, source, prefix).double().numpy()

    def log_probs(self, source: tuple[int, ...], prefix: tuple[int, ...], /) -> Any:
        scores = self.read(source, prefix)
        return at_least_five_without_repeats(source, prefix[1:], scores).tolist()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = {}
    for search in ("beam", "greedy", "sample"):
        spec = constrained_decoder(f"own {search}", at_least_five_without_repeats, search=search)
        monkeypatch.setitem(DECODERS._specs, spec.name, spec)  # as `register`, for this test
        found[search] = spec.name
    return found


def test_a_constrained_search_is_the_naive_one_with_any_drafter(tiny_retro: Any, names: dict[str, str]) -> None:
    engine = Engine.load(tiny_retro, device="cpu", runtime="torch", dtype="fp64", threads=1)
    table, drafted = Constrained(engine), 0
    for query in QUERIES[:3]:
        source = engine.tokenizer.encode(query)
        beam = [one.tokens for one in naive_beam(table, source, 3, MAX_LEN)]
        greedy = naive_greedy(table, source, MAX_LEN).tokens
        for drafter in ("none", "copy", "windows"):
            how: dict[str, Any] = {"max_len": MAX_LEN, "drafter": drafter}
            found = engine.generate_ids([source], DecodeSettings(decoder=names["beam"], n=3, **how))[0]
            assert [one.tokens for one in found] == beam
            assert all(len(set(pair)) == 2 for one in beam for pair in pairwise(one))
            (first,) = engine.generate_ids([source], DecodeSettings(decoder=names["greedy"], n=1, **how))[0]
            assert first.tokens == greedy and len(greedy) > 5
            result = engine.predict(query, decoder=names["greedy"], n=1, **how)
            drafted += sum(step.drafted for step in result.trace.passes)
        draws = []
        for drafter in ("none", "copy"):
            settings = DecodeSettings(decoder=names["sample"], n=3, max_len=MAX_LEN, drafter=drafter)
            draws.append([one.tokens for one in engine.generate_ids([source], settings)[0]])
        assert draws[0] == draws[1]
    assert drafted


def test_what_is_no_constraint_is_refused(tiny_retro: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="not with 'sbs'"):
        constrained_decoder("own", at_least_five_without_repeats, search="sbs")
    engine = Engine.load(tiny_retro, device="cpu", threads=1)
    source = engine.tokenizer.encode("CCO")
    wrong = {
        "at most 0": lambda *given: given[2] + 100,
        "an array of": lambda *given: given[2][:3],
        "allows no token after": lambda *given: np.full_like(given[2], -math.inf),
    }
    for why, process in wrong.items():
        monkeypatch.setitem(DECODERS._specs, "own", constrained_decoder("own", process, search="greedy"))
        with pytest.raises(PluginError, match=why):
            engine.generate_ids([source], DecodeSettings(decoder="own", n=1, max_len=8))
    dead = constrained_decoder("own", wrong["allows no token after"])
    monkeypatch.setitem(DECODERS._specs, "own", dead)
    assert engine.generate_ids([source], DecodeSettings(decoder="own", n=2, max_len=8)) == [[]]
