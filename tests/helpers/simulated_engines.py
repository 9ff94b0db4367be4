"""Engines of a cluster with a simulated clock, for `dispatch_pieces`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from chemspec.cluster.dispatch import Piece, dispatch_pieces


@dataclass
class SimulatedEngines:
    """Engines that take a random time around the mean for a piece, and die now and then; the driver takes its own."""

    count: int
    row_seconds: float  # mean time of an engine for a row
    driver_seconds: float = 0.0  # time of the driver for a row: read, carry, write
    spread: float = 0.2  # of the time of a piece, relative
    death_rate: float = 0.0  # probability that an engine dies over a piece
    clock: float = 0.0  # seconds
    busy: float = 0.0  # seconds of all engines
    deaths: int = 0
    random: Random = field(default_factory=lambda: Random(0))

    def __post_init__(self) -> None:
        self._running: list[tuple[float, int, Piece, bool]] = []
        self.used = 0  # engines that had work at once

    def size(self) -> int:
        return self.count

    def submit(self, piece: Piece) -> None:
        assert len(self._running) < self.count
        seconds = len(piece.queries) * self.row_seconds * max(0.1, self.random.gauss(1.0, self.spread))
        self.clock += len(piece.queries) * self.driver_seconds
        self.busy += seconds
        dies = self.random.random() < self.death_rate
        heappush(self._running, (self.clock + seconds, piece.first, piece, dies))
        self.used = max(self.used, len(self._running))

    def wait(self) -> list[tuple[Piece, int | None, str]]:
        end, _, piece, dies = heappop(self._running)
        self.clock = max(self.clock, end)
        self.deaths += dies
        return [(piece, None if dies else len(piece.queries), "the machine went")]

    @property
    def utilisation(self) -> float:
        """Share of the engines' time in which they worked."""
        return self.busy / (self.clock * self.count)


def simulate(rows: int, engines: SimulatedEngines, size: int) -> int:
    """Dispatch rows in shards of a size; returns the number of rows that were answered."""

    def pieces() -> Iterator[Piece]:
        for shard, first in enumerate(range(0, rows, size)):
            yield Piece(shard, first, range(first, min(rows, first + size)))  # type: ignore[arg-type]  # no texts

    return sum(answered or 0 for _, answered in dispatch_pieces(pieces(), engines))
