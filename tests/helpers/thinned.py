"""Many cases of one law: a few run by default, the others every night, as together they take too long."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest

NIGHTLY = (pytest.mark.slow, pytest.mark.nightly)


def pairwise(*axes: Sequence[Any]) -> list[Any]:
    """All combinations of the values of some axes, for `parametrize`; those that no pair needs run every night."""
    rows = [*product(*(range(len(axis)) for axis in axes))]
    missing = {pair for row in rows for pair in _pairs(row)}
    chosen = set()
    while missing:
        best = max(rows, key=lambda row: len(missing.intersection(_pairs(row))))
        chosen.add(best)
        missing.difference_update(_pairs(best))
    return [
        pytest.param(*(axis[at] for axis, at in zip(axes, row, strict=True)), marks=() if row in chosen else NIGHTLY)
        for row in rows
    ]


def every(step: int, cases: Sequence[Any]) -> list[Any]:
    """Values of one argument for `parametrize`; by default each one of so many, the others every night."""
    return [case if number % step == 0 else pytest.param(case, marks=NIGHTLY) for number, case in enumerate(cases)]


def _pairs(row: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    return [*combinations(enumerate(row), 2)]
