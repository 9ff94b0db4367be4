"""Plans of many targets in several processes, which share the cache on disk."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TypeVar

from chemspec.plan.routes import Evidence, Plan
from chemspec.system.threads import usable_cores, worker_pool

TARGETS_EACH = 4  # targets from which a further process, with models of its own, pays
AHEAD = 2  # targets submitted for each process, so that none waits for a slow one before it
Planner = Callable[[str], tuple[Plan, Evidence]]
_planner: Planner | None = None  # the planner of a process of the pool


def choose_workers(targets: int, workers: int = 0) -> int:
    """Return the number of processes for some targets; by default all cores, if there are several targets for each."""
    return min(targets, workers) if workers else max(1, min(usable_cores(), targets // TARGETS_EACH))


def plan_in_processes(
    targets: Sequence[str], load: Callable[[], Planner], workers: int
) -> Iterator[tuple[Plan, Evidence]]:
    """Yield the plan of each target with the precedents of its steps, in order.

    `load` loads the models, in each process; it must be importable there. ValueError if a process dies.
    """
    with worker_pool(workers, partial(_open, load)) as pool:
        try:
            for _, future in submit_in_order(targets, lambda target: pool.submit(_plan, target), lambda: workers):
                yield future.result()
        except BrokenProcessPool as error:
            raise ValueError("a process has died, perhaps for want of memory; try fewer --workers") from error


Submitted = TypeVar("Submitted")


def submit_in_order(
    targets: Sequence[str], submit: Callable[[str], Submitted], processes: Callable[[], int]
) -> Iterator[tuple[str, Submitted]]:
    """Yield each target with what `submit` returned for it, in order, some ahead of those that are waited for."""
    running: deque[tuple[str, Submitted]] = deque()
    for target in targets:
        running.append((target, submit(target)))
        if len(running) > AHEAD * processes():
            yield running.popleft()
    yield from running


def _open(load: Callable[[], Planner]) -> None:
    global _planner
    _planner = load()


def _plan(target: str) -> tuple[Plan, Evidence]:
    assert _planner is not None
    return _planner(target)
