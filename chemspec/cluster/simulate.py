"""Plan a job that is too large to try: `dispatch` itself hands out its pieces, to engines that only keep the time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from chemspec.cluster.dispatch import Answered, Lost, Piece, dispatch

HOUR = 3600.0


@dataclass(frozen=True)
class JobPlan:
    """A job on machines that fail.

    Attributes:
        rows: of the input.
        shard_rows: of a shard.
        seconds_a_row: of an engine, as measured.
        machines: as many as there are at a time.
        engines: of a machine.
        load: seconds until an engine on a new machine answers.
        hours_between_failures: of a machine, on average; 0: it never fails.
        replaced: seconds until another machine takes the place of one that failed.
        driver_hours: between failures of the driver, on average; 0: it never fails. It stops everything.
        spread: standard deviation of a shard's time over its mean.
        price: of an engine's hour.
        bytes_a_row: of the answers on disk, as measured.
        driver_seconds_a_row: of the driver, as measured; engines wait for it where they are many.
        seed: of all chances.
    """

    rows: int = 10**9
    shard_rows: int = 10_000
    seconds_a_row: float = 0.005
    machines: int = 50
    engines: int = 16
    load: float = 60.0
    hours_between_failures: float = 200.0
    replaced: float = 300.0
    driver_hours: float = 0.0
    spread: float = 0.1
    price: float = 0.04
    bytes_a_row: float = 250.0
    driver_seconds_a_row: float = 1e-5
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rows", "shard_rows", "machines", "engines", "seconds_a_row"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.rows > 10**8 * self.shard_rows:
            raise ValueError(f"{self.rows} rows in shards of {self.shard_rows} are too many shards; give larger ones")


@dataclass(frozen=True)
class JobForecast:
    """What a job takes.

    Attributes:
        hours: until the end.
        engine_hours: paid for, from the first to the last.
        cost: of them.
        efficiency: time spent on answers that count, of all time paid for.
        lost_hours: spent on shards that were lost with their engine.
        failures: of machines.
        deaths: of engines at work.
        shards: and files of answers.
        gigabytes: of answers.
        driver_load: of a core, while it reads, hands out and writes.
    """

    hours: float
    engine_hours: float
    cost: float
    efficiency: float
    lost_hours: float
    failures: int
    deaths: int
    shards: int
    gigabytes: float
    driver_load: float


def simulate(plan: JobPlan) -> JobForecast:
    """Play a job, failures drawn at random from the plan's seed.

    Raises:
        ClusterError: if machines fail faster than shards are answered.
    """
    engines = _Clockwork(plan)
    shards = -(-plan.rows // plan.shard_rows)
    counted = [0, 0]

    def answered(piece: Piece, _: None) -> None:
        counted[0] += len(piece.queries)
        counted[1] += 1

    def pieces() -> Iterator[Piece]:
        for number in range(shards):
            first = number * plan.shard_rows
            yield Piece(number, first, range(first, min(first + plan.shard_rows, plan.rows)))  # type: ignore[arg-type]

    dispatch(pieces(), engines, answered, lambda _: None)
    assert counted[0] == plan.rows
    hours = engines.now / HOUR
    paid = hours * plan.machines * plan.engines
    return JobForecast(
        hours=hours,
        engine_hours=paid,
        cost=paid * plan.price,
        efficiency=engines.useful / HOUR / paid,
        lost_hours=engines.lost / HOUR,
        failures=engines.failures,
        deaths=engines.deaths,
        shards=shards,
        gigabytes=plan.rows * plan.bytes_a_row / 1e9,
        driver_load=plan.rows * plan.driver_seconds_a_row / engines.now,
    )


@dataclass
class _Task:
    piece: Piece
    began: float
    seconds: float


class _Clockwork:
    """Engines as `dispatch` wants them, on machines that fail and come back; time passes in `wait` alone."""

    def __init__(self, plan: JobPlan) -> None:
        self.now = self.useful = self.lost = 0.0
        self.failures = self.deaths = 0
        self._plan, self._random = plan, Random(plan.seed)
        self._free: list[int] = []
        self._tasks: dict[int, _Task] = {}
        self._up: set[int] = set()
        self._events: list[tuple[float, int, str, int, int]] = []  # time, order, what, which, whose turn
        self._order = 0
        self._turn = [0] * plan.machines  # of a machine: what it was to do before it failed is void
        for machine in range(plan.machines):
            self._after(plan.load, "up", machine)
        self._after(self._failure(plan.driver_hours), "driver", 0)

    def free(self) -> int:
        return len(self._free)

    def busy(self) -> int:
        return len(self._tasks)

    def size(self) -> int:
        return len(self._up) * self._plan.engines

    def give(self, piece: Piece) -> None:
        engine = self._free.pop()
        chance = max(0.2, self._random.gauss(1.0, self._plan.spread))
        seconds = chance * self._plan.seconds_a_row * len(piece.queries)
        self._tasks[engine] = _Task(piece, self.now, seconds)
        self._after(seconds, "done", engine)

    def wait(self) -> Sequence[Answered[None] | Lost]:
        while self._events:
            time, _, what, which, turn = heapq.heappop(self._events)
            self.now = max(self.now, time)  # later, where the driver was busy
            if what == "driver":
                self._after(self._failure(self._plan.driver_hours), "driver", 0)
                return [event for machine in list(self._up) for event in self._down(machine)]
            machine = which // self._plan.engines if what == "done" else which
            if turn != self._turn[machine]:
                continue
            if what == "done":
                task = self._tasks.pop(which)
                self._free.append(which)
                self.useful += task.seconds
                self.now += self._plan.driver_seconds_a_row * len(task.piece.queries)
                return [Answered(task.piece, None)]
            if what == "up":
                self._up.add(machine)
                self._free += range(machine * self._plan.engines, (machine + 1) * self._plan.engines)
                self._after(self._failure(self._plan.hours_between_failures), "fails", machine)
                return []
            self.failures += 1
            return self._down(machine)
        raise AssertionError("nothing is going to happen any more")

    def _down(self, machine: int) -> list[Lost]:
        self._turn[machine] += 1
        self._up.remove(machine)
        first, end = machine * self._plan.engines, (machine + 1) * self._plan.engines
        self._free = [engine for engine in self._free if not first <= engine < end]
        gone = [self._tasks.pop(engine) for engine in range(first, end) if engine in self._tasks]
        self.lost += sum(min(self.now - task.began, task.seconds) for task in gone)
        self.deaths += len(gone)
        self._after(self._plan.replaced + self._plan.load, "up", machine)
        return [Lost(task.piece, "its machine failed") for task in gone]

    def _failure(self, hours: float) -> float:
        return self._random.expovariate(1 / (hours * HOUR)) if hours else float("inf")

    def _after(self, seconds: float, what: str, which: int) -> None:
        if seconds == float("inf"):
            return
        self._order += 1
        machine = 0 if what == "driver" else which // self._plan.engines if what == "done" else which
        heapq.heappush(self._events, (self.now + seconds, self._order, what, which, self._turn[machine]))
