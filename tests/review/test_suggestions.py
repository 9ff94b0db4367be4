"""What is said of a list of predictions as a whole."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from chemspec.review.suggestions import recorded_rank


def suggestion(rank: int, *, same: object = None, known: bool = True) -> Any:
    return SimpleNamespace(rank=rank, precedents=SimpleNamespace(same=same) if known else None)


def test_the_first_recorded_prediction_is_named() -> None:
    assert recorded_rank([]) is None
    assert recorded_rank([suggestion(1, known=False), suggestion(2)]) is None
    assert recorded_rank([suggestion(1), suggestion(2, same="US1"), suggestion(3, same="US2")]) == 2
