"""What runs have shown of a drafter: how often its tokens were accepted, and whether drafting pays off.

A history belongs to one model, drafter and kind of search. It goes on within a query, across queries and, kept on disk
with the model's cost curve, across processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from threading import Lock
from typing import Any

from chemspec.system import cache

POSITION_CLASS = 11  # the classes before are those of the drafter's probabilities (`edit_ngrams.probability_class`)
CLASSES = POSITION_CLASS + 5
NUMBERS = 5  # of a history besides the classes
FIRST_PAUSE, MAX_PAUSE = 4.0, 4096.0  # forward passes without drafts
USUAL_PASSES = 40.0  # passes of a query without drafts
# Passes, and runs, in a row in which nothing was worth adding, from which on the next ones are not planned.
MAX_IDLE, MAX_IDLE_RUNS = 8, 2
MAX_TRIES = 400.0  # tries of a class that are remembered; older ones fade


@dataclass
class DraftHistory:
    """How a drafter has done with one model and one kind of search; thread-safe."""

    net_gain: float = 0.0  # gain of drafting lately, in undrafted passes
    pause: float = FIRST_PAUSE  # length of the next pause of drafting in forward passes
    pause_left: float = 0.0  # forward passes that are left of this pause
    value_share: float = 0.8  # cost of a requested node, in those of undrafted decoding
    idle_runs: float = 0.0  # runs in a row in which nothing was worth adding
    # Accepted and verified draft tokens of each class.
    hits: list[float] = field(default_factory=lambda: [0.0] * CLASSES)
    tries: list[float] = field(default_factory=lambda: [0.0] * CLASSES)
    # Times of passes of each size of the cost curve, and of planning, divided by those expected; empty: as expected.
    # Not kept on disk, since they depend on what else the machine is doing.
    factors: list[float] = field(default_factory=list)
    changed: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    _changing: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def copy(self) -> DraftHistory:
        """Return a copy."""
        with self._changing:
            copied = DraftHistory(*self._values())
            copied.factors = self.factors[:]
            return copied

    def add_run(self, before: DraftHistory, after: DraftHistory) -> None:
        """Add what a run has learned that began with `before` and has come to `after`."""
        with self._changing:
            self.net_gain, self.value_share = after.net_gain, after.value_share
            self.pause, self.pause_left, self.factors = after.pause, after.pause_left, after.factors[:]
            self.idle_runs = self.idle_runs + 1 if after.idle_runs else 0.0
            if self.idle_runs >= MAX_IDLE_RUNS:
                idle = USUAL_PASSES * 2.0 ** min(self.idle_runs - MAX_IDLE_RUNS, 10.0)
                self.pause_left = max(self.pause_left, min(idle, MAX_PAUSE))
            for kind in range(CLASSES):
                self.hits[kind] += after.hits[kind] - before.hits[kind]
                self.tries[kind] += after.tries[kind] - before.tries[kind]
                if self.tries[kind] > MAX_TRIES:
                    self.hits[kind] *= MAX_TRIES / self.tries[kind]
                    self.tries[kind] = MAX_TRIES
        self.changed()

    def skip_run(self, passes: float) -> bool:
        """Return whether drafting pauses, and count a run without drafts of about this many passes."""
        with self._changing:
            pausing = self.pause_left > 0
            self.pause_left = max(0.0, self.pause_left - passes)
            return pausing

    def _values(self) -> tuple[Any, ...]:
        numbers = self.net_gain, self.pause, self.pause_left, self.value_share, self.idle_runs
        return *numbers, self.hits[:], self.tries[:]


class DraftHistories:
    """The histories of one model by drafter and search, kept in a file of the cache."""

    def __init__(self, name: str = "") -> None:
        """Read the file of this name, if it is there and undamaged; without a name nothing is kept."""
        self._name, self._histories, self._changing = name, dict[str, DraftHistory](), Lock()
        self._stored = 0.0  # how much had been learned when the file was written
        content = cache.read_cached(name) if name else None
        try:
            for key, values in json.loads(content or b"{}").items():
                self._histories[key] = self._read(values)
        except (ValueError, TypeError, AttributeError):
            self._histories.clear()  # damaged
        self._stored = self._learned()

    def of(self, key: str) -> DraftHistory:
        """Return the history of a drafter and a kind of search."""
        with self._changing:
            if key not in self._histories:
                self._histories[key] = DraftHistory(changed=self._store)
            return self._histories[key]

    def _read(self, values: list[Any]) -> DraftHistory:
        *numbers, hits, tries = values
        if len(numbers) != NUMBERS or len(hits) != CLASSES or len(tries) != CLASSES:
            raise ValueError("no history")
        if not all(map(isfinite, (*numbers, *hits, *tries))):
            raise ValueError("no history")
        history = DraftHistory(*values)
        history.changed = self._store
        return history

    def _learned(self) -> float:
        """Return a measure of what has been learned: verified tokens, and the lengths of pauses."""
        return sum(sum(history.tries) + history.pause for history in self._histories.values())

    def _store(self) -> None:
        """Write the file if twice as much has been learned as is in it, so that it is written rarely."""
        if not self._name:
            return
        with self._changing:
            if self._learned() < 2 * self._stored:
                return
            self._stored = self._learned()
            content = {key: history.copy()._values() for key, history in self._histories.items()}
        cache.write_cached(self._name, json.dumps(content).encode())
