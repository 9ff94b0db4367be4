"""From which distance to the best hypothesis on beams park others (`beam.park`): learned from finished searches.

The distance that the list of a search needs is known once it has finished. The next searches of the same model and
width park beyond the distance that was enough for most of the last ones; a search that needs more is repeated with
known scores, which costs it passes, never its list. Until enough searches have finished nothing is parked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from math import ceil, inf
from threading import Lock
from typing import TYPE_CHECKING

from chemspec.system import cache

if TYPE_CHECKING:
    from chemspec.model.cost import CostCurve
    from chemspec.types import FinishedSequence

MAX_SEARCHES, MIN_SEARCHES = 64, 8  # searches that are remembered; from which on hypotheses are parked
ENOUGH = 0.92  # share of the searches whose list the distance must include
# What parking does to the passes of a search, in the mean: share of the nodes left; share of passes that repetitions
# add; the smallest saving of time that is worth it, because cost curves are inexact.
NODES_LEFT, ADDED_PASSES, MIN_SAVING = 0.87, 0.07, 0.04


def parking_pays(cost: CostCurve, width: int, queries: int) -> bool:
    """Return whether passes of this many queries would take clearly less time with parked hypotheses."""
    nodes = width * queries
    return cost(NODES_LEFT * nodes) + ADDED_PASSES * cost(1) < (1 - MIN_SAVING) * cost(nodes)


def needed_gap(answers: Sequence[FinishedSequence]) -> float:
    """Return the largest distance, in nats, of an answer's prefix to the best of all answers after as many tokens.

    It is infinite if an answer has not ended: then no list is proved while anything is parked (`beam.park`).
    """
    if any(answer.ended != "eos" for answer in answers):
        return inf
    totals = [[*accumulate(answer.log_probs)] for answer in answers]
    best, gap = -inf, 0.0
    for depth in range(max(map(len, totals)) - 1):
        live = [total[depth] for total in totals if len(total) > depth + 1]
        ended = [total[-1] for total in totals if len(total) <= depth + 1]
        best = max(*live, *ended, -inf, -inf)
        gap = max(gap, best - min(live))
    return gap


class ParkingGaps:
    """The distances that lists of one model have needed, by the width of the beam; kept in a file of the cache."""

    def __init__(self, name: str = "") -> None:
        """Read the file of this name, if it is there and undamaged; without a name nothing is kept."""
        self._name, self._changing, self._added = name, Lock(), 0
        self._needed: dict[int, list[float]] = {}
        content = cache.read_cached(name) if name else None
        try:
            for width, gaps in json.loads(content or b"{}").items():
                self._needed[int(width)] = [float(gap) for gap in gaps if gap >= 0][-MAX_SEARCHES:]
        except (ValueError, TypeError, AttributeError):
            self._needed.clear()  # damaged

    def gap(self, width: int) -> float:
        """Return the distance from which on a beam of this width parks hypotheses; infinite for too few searches."""
        with self._changing:
            needed = sorted(self._needed.get(width, ()))
        return needed[ceil(ENOUGH * len(needed)) - 1] if len(needed) >= MIN_SEARCHES else inf

    def add(self, answers: Sequence[FinishedSequence]) -> None:
        """Learn from the full list of a finished beam search."""
        width, gap = len(answers), needed_gap(answers)
        with self._changing:
            gaps = self._needed.setdefault(width, [])
            gaps.append(gap)
            del gaps[:-MAX_SEARCHES]
            self._added += 1
            if not self._name or self._added < MIN_SEARCHES or self._added & (self._added - 1):  # written rarely
                return
            content = json.dumps({str(size): each for size, each in self._needed.items()}).encode()
        cache.write_cached(self._name, content)
