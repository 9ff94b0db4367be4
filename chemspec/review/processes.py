"""Reviews in several processes: a review is mostly Python, which uses one core."""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

from chemspec.system.threads import usable_cores, worker_pool
from chemspec.types import DecodeResult

ROWS_EACH = 100  # rows from which a further process, with models of its own, pays
MAX_PROCESSES = 8  # each takes 0.2 GB
Reviewed = tuple[dict[str, Any], list[list[str]]]
MakeReviews = Callable[[Sequence[DecodeResult]], Sequence[Reviewed]]
T = TypeVar("T")

_make: MakeReviews | None = None  # set in a process of the pool


def choose_processes(rows: int) -> int:
    """Return the number of processes for some rows: all cores, if there are many rows for each."""
    return max(1, min(usable_cores(), MAX_PROCESSES, rows // ROWS_EACH))


@contextmanager
def open_reviews(load: Callable[[], MakeReviews], processes: int) -> Iterator[MakeReviews]:
    """Yield the function that reviews results, in order; with one process here, else in a pool.

    `load` returns it with its models, and must be importable in the processes. If one of them dies, as RDKit may on
    some texts, the reviews go on here.
    """
    if processes < 2:
        yield load()
        return
    with worker_pool(processes, _Prepare(load)) as pool:
        yield _Pool(pool, load, processes).review


class _Prepare:
    """Loads the models in a process of the pool."""

    def __init__(self, load: Callable[[], MakeReviews]) -> None:
        self.load = load

    def __call__(self) -> None:
        global _make
        _make = self.load()


class _Pool:
    def __init__(self, pool: ProcessPoolExecutor, load: Callable[[], MakeReviews], processes: int) -> None:
        self._pool, self._load, self._processes = pool, load, processes
        self._here: MakeReviews | None = None  # after the death of a process

    def review(self, results: Sequence[DecodeResult]) -> list[Reviewed]:
        if self._here is None:
            try:
                return [row for rows in self._pool.map(_review, split_evenly(results, self._processes)) for row in rows]
            except BrokenProcessPool:
                logging.getLogger(__name__).warning("a process that reviews has died; the reviews go on in one process")
                self._here = self._load()
        return list(self._here(results))


def _review(results: Sequence[DecodeResult]) -> Sequence[Reviewed]:
    assert _make is not None
    return _make(results)


def split_evenly(items: Sequence[T], parts: int) -> list[Sequence[T]]:
    """Return items in order in at most `parts` parts, none empty, whose sizes differ by one at most."""
    parts = min(parts, len(items))
    edges = [number * len(items) // parts for number in range(parts + 1)] if parts else [0]
    return [items[first:last] for first, last in pairwise(edges)]
