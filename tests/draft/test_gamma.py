"""The wall-time equation, its top, and a draft length that finds it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chemspec.draft.learned.gamma import MAX_DRAFT, AdaptiveGamma, best_draft_length, wall_time_improvement

RATES = st.floats(0.02, 0.99)
PRICES = st.floats(0.005, 1.5)


def test_the_equation_counts_the_tokens_of_a_pass() -> None:
    """E(tokens) = 1 + a + a^2 + ... + a^g, at the price of a pass and g small ones."""
    for a in (0.0, 0.3, 0.9):
        for g in range(6):
            tokens = sum(a**k for k in range(g + 1))
            assert wall_time_improvement(a, g, 0.1) == pytest.approx(tokens / (1 + 0.1 * g))
    assert wall_time_improvement(1.0, 7, 0.0) == 8
    # Leviathan et al., table 1 and text: alpha 0.8, gamma 5, c about 0 gives 3.69 tokens a run.
    assert wall_time_improvement(0.8, 5, 0.0) == pytest.approx(3.69, abs=0.01)


@given(RATES, PRICES)
def test_no_number_of_tokens_beats_the_best_one(a: float, c: float) -> None:
    """The equation has one top: what neither neighbour beats, none beats."""
    found = best_draft_length(a, c)
    top = wall_time_improvement(a, found, c)
    assert all(top >= wall_time_improvement(a, g, c) for g in (found - 1, found + 1) if 0 <= g <= MAX_DRAFT)
    assert top >= wall_time_improvement(a, MAX_DRAFT / 2, c)


def test_no_draft_pays_where_it_costs_more_than_it_brings() -> None:
    """Leviathan et al., corollary 3.9: there is a gamma that pays if and only if alpha > c."""
    assert best_draft_length(0.3, 0.31) == 0
    assert best_draft_length(0.3, 0.2) >= 1
    assert best_draft_length(0.999999, 0.01) == MAX_DRAFT
    assert best_draft_length(1.0, 0.0) == MAX_DRAFT


@pytest.mark.parametrize(("a", "c"), [(0.55, 0.1), (0.8, 0.1), (0.93, 0.05), (0.2, 0.5)])
def test_an_adapting_length_converges_to_the_best_one(a: float, c: float) -> None:
    """Tokens that are right with a known chance: the length ends at the maximiser of the equation."""
    random, gamma = Random(1), AdaptiveGamma(c)
    lengths = []
    for _ in range(6000):
        length = gamma.next_length()
        lengths.append(length)
        right = 0
        while right < length and random.random() < a:
            right += 1
        gamma.record_outcome(right, int(right < length))
    assert gamma.alpha == pytest.approx(a, abs=0.04)
    wanted = best_draft_length(a, c)
    last = [length for length in lengths[-1000:] if length or not wanted]
    assert sum(abs(length - wanted) <= 1 for length in last) >= 0.85 * len(last)
