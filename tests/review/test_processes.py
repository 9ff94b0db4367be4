"""Reviews in several processes are those of one, and survive the death of a process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

import pytest

from chemspec.review import processes
from chemspec.review.processes import MakeReviews, Reviewed, choose_processes, open_reviews, split_evenly
from chemspec.types import DecodeResult


def reviews(parent: int, results: Sequence[DecodeResult]) -> list[Reviewed]:
    if any(result.query == "crash" for result in results) and os.getpid() != parent:
        os._exit(1)
    return [({"query": result.query, "here": os.getpid() == parent}, []) for result in results]


def load(parent: int) -> MakeReviews:
    return partial(reviews, parent)


@pytest.mark.parametrize("count", [1, 2])
def test_reviews_come_in_order_from_one_process_or_several(count: int) -> None:
    results = [DecodeResult(str(number), "ok", "") for number in range(7)]
    with open_reviews(partial(load, os.getpid()), count) as review:
        documents = [document for document, _ in review(results)]
    assert [document["query"] for document in documents] == [str(number) for number in range(7)]
    assert [document["here"] for document in documents] == [count == 1] * 7


def test_after_the_death_of_a_process_the_reviews_go_on_here() -> None:
    with open_reviews(partial(load, os.getpid()), 2) as review:
        documents = review([DecodeResult("C", "ok", ""), DecodeResult("crash", "ok", "")])
        assert [document["query"] for document, _ in documents] == ["C", "crash"]
        assert review([DecodeResult("N", "ok", "")])[0][0]["here"]


@pytest.mark.parametrize("items", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_parts_are_even_and_in_order(items: int, parts: int) -> None:
    cut = split_evenly(list(range(items)), parts)
    assert [item for part in cut for item in part] == list(range(items))
    assert len(cut) == min(items, parts) and max(map(len, cut), default=0) - min(map(len, cut), default=0) <= 1


@pytest.mark.parametrize(
    ("rows", "cores", "count"), [(50, 8, 1), (199, 8, 1), (250, 8, 2), (10_000, 4, 4), (9_000, 64, 8)]
)
def test_small_jobs_start_no_processes(rows: int, cores: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "usable_cores", lambda: cores)
    assert choose_processes(rows) == count
