"""Every rate means what its definition says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chemspec.metrics import speed_numbers
from chemspec.types import Draft, Pass, Trace


def call(
    computed: int = 1, drafted: int = 0, emitted: int = 1, accepted: int = 0, width: int = 1, margin: float = 1.0
) -> Pass:
    return Pass(computed - drafted, computed, drafted, emitted, accepted, margin, width, 0.5, 2.0)


def test_rates_by_their_definitions() -> None:
    first = Trace((), {}, (call(11, 10, 5, 4), call(6, 5, 1, 0)), seconds=10.0)
    second = Trace((), {}, (call(1, 0, 1, 0), call(21, 20, 13, 12)), seconds=6.0)
    found = speed_numbers([first, second])
    assert found.passes_per_query == 2
    assert found.tokens_per_pass == 20 / 4  # emitted / passes
    assert found.nodes_per_pass == 39 / 4
    assert found.acceptance_rate == 16 / 20  # accepted / emitted
    assert found.draft_hit_rate == 16 / 35  # accepted / drafted
    assert found.acceptance_length == 16 / 4 + 1  # accepted + 1 per pass


def test_a_call_is_shared_out_among_its_queries() -> None:
    """Four queries in one call of two seconds: two seconds of model time."""
    found = speed_numbers([Trace((), {}, (call(width=4),), 2.5) for _ in range(4)])
    assert found.model_seconds == pytest.approx(2.0)
    assert found.draft_seconds == pytest.approx(0.5)


def test_alpha_is_the_chance_of_a_token_after_right_ones() -> None:
    """Three of four, four of four, none of four; in the last pass the end of the answer may have cut the draft."""
    draft = Draft((4, 5, 6, 7), "ar")
    passes = [replace(call(), accepted=count, drafts=(draft,), draft_calls=4) for count in (3, 4, 0, 2)]
    found = speed_numbers([Trace((), {}, tuple(passes), 1.0)])
    assert (found.refused, found.draft_calls) == (2, 16)
    assert found.alpha == 9 / (9 + 2)


def test_the_margin_is_the_smallest() -> None:
    traces = [Trace((), {}, (call(margin=m),)) for m in (0.5, 1e-6, 3.0)]
    assert speed_numbers(traces).margin == 1e-6
