"""Measure how much of a small drafter's draft the target accepts (alpha of Leviathan et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

from chemspec.engine.engine import Engine
from chemspec.metrics import speed_numbers
from chemspec.settings import DecodeSettings


def acceptance_rate(engine: Engine, queries: Sequence[str], drafter: str, *, length: int = 8) -> float:
    """Return the share of a small model's tokens that the target accepts, greedily."""
    settings = DecodeSettings(
        decoder="greedy", n=1, batch_size=1, drafter=drafter, draft_length=length, drafting="fixed"
    )
    rate = speed_numbers([result.trace for result in engine.predict(queries, settings)]).alpha
    return min(max(round(rate, 3), 0.001), 0.999)  # a rate of one would draft without end
