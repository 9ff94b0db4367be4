"""The wall-time model, against sums, draws and the theorems of Leviathan et al. (2023)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chemspec.ui.learn.walltime import best_gamma, expected_speedup, expected_tokens

alphas = st.floats(0, 1)
gammas = st.integers(0, 40)
costs = st.floats(0, 2)


@given(st.floats(0, 0.999), gammas)
def test_expected_tokens_are_the_closed_form_of_the_papers(alpha: float, gamma: int) -> None:
    closed = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    assert expected_tokens(alpha, gamma) == pytest.approx(closed, rel=1e-9)


@given(gammas)
def test_the_ends_of_the_scale(gamma: int) -> None:
    assert expected_tokens(1, gamma) == gamma + 1  # all accepted, and the model's own token
    assert expected_tokens(0, gamma) == 1  # as without drafts


@given(alphas, costs)
def test_drafting_pays_exactly_where_alpha_exceeds_c(alpha: float, c: float) -> None:
    """Leviathan et al., corollary 3.9, and by how much at least."""
    gain = expected_speedup(alpha, best_gamma(alpha, c), c)
    if alpha > c:
        assert gain >= (1 + alpha) / (1 + c) * (1 - 1e-12)
    else:
        assert gain <= 1 + 1e-12
