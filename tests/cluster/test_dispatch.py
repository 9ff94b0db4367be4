"""Whatever dies, every row is answered once, and only rows that kill are given up."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from helpers.simulated_engines import SimulatedEngines, simulate
from hypothesis import given
from hypothesis import strategies as st

from chemspec.cluster.dispatch import DEATHS_OF_A_ROW, ClusterError, Piece, dispatch_pieces
from chemspec.cluster.shards import cut_into_shards, fit_shards

Rows = list[tuple[int, str]]


class Mortal:
    """Engines that die over "x", and otherwise by chance, half of the machines at once."""

    def __init__(self, size: int, random: Random, chance: float = 0.0) -> None:
        self._size, self._random, self._chance = size, random, chance
        self._busy: deque[Piece] = deque()
        self.most_given = 0
        self.deaths = self._in_a_row = 0

    def size(self) -> int:
        return self._size

    def submit(self, piece: Piece) -> None:
        assert len(self._busy) < self._size
        self._busy.append(piece)
        self.most_given = max(self.most_given, piece.shard)

    def wait(self) -> list[tuple[Piece, Rows | None, str]]:
        if self._in_a_row < 3 and self._random.random() < self._chance:
            self._in_a_row += 1
            # Not so often the same row that it would seem to be the one that kills.
            gone = [self._busy.pop() for _ in range(len(self._busy) // 2)]
            self._busy.extend(piece for piece in gone if piece.deaths >= DEATHS_OF_A_ROW - 1)
            gone = [piece for piece in gone if piece.deaths < DEATHS_OF_A_ROW - 1]
            self.deaths += len(gone)
            return [(piece, None, "the machine went") for piece in gone]
        self._in_a_row = 0
        self._busy.rotate(self._random.randrange(3))
        piece = self._busy.popleft()
        if "x" in piece.queries:
            self.deaths += 1
            return [(piece, None, "poison")]
        return [(piece, [(piece.first + i, query) for i, query in enumerate(piece.queries)], "")]


def run(queries: Sequence[str], engines: Mortal, size: int) -> tuple[Rows, Rows]:
    """What was answered, and what was given up."""
    answers: Rows = []
    dead: Rows = []

    for piece, rows in dispatch_pieces(cut_into_shards(iter(queries), size), engines):
        if rows is None:
            dead.extend(rows := [(piece.first, query) for query in piece.queries])
        answers.extend(rows)
    return answers, dead


@given(
    queries=st.lists(st.sampled_from("CNOx"), max_size=60).filter(lambda queries: queries.count("x") < 4),
    engines=st.integers(1, 6),
    size=st.integers(1, 70),
    seed=st.integers(0, 2**20),
)
def test_every_row_is_answered_once_and_only_poison_is_given_up(
    queries: list[str], engines: int, size: int, seed: int
) -> None:
    """Where rows kill and nothing else does, exactly those are given up."""
    answers, dead = run(queries, Mortal(engines, Random(seed)), size)
    assert sorted(answers) == list(enumerate(queries))
    assert sorted(dead) == [(place, query) for place, query in enumerate(queries) if query == "x"]


@given(rows=st.integers(0, 200), engines=st.integers(1, 8), size=st.integers(1, 50), seed=st.integers(0, 2**20))
def test_machines_that_go_cost_no_row(rows: int, engines: int, size: int, seed: int) -> None:
    queries = [f"C{number}" for number in range(rows)]
    answers, dead = run(queries, Mortal(engines, Random(seed), chance=0.3), size)
    assert sorted(answers) == list(enumerate(queries)) and not dead


def test_a_row_that_kills_costs_few_engines() -> None:
    queries = ["C"] * 999 + ["x"] + ["C"] * 1000
    engines = Mortal(2, Random(0))
    answers, dead = run(queries, engines, 1000)
    assert len(answers) == 2000 and dead == [(999, "x")]
    assert engines.deaths == 2 + DEATHS_OF_A_ROW  # the shard twice, then the row


def test_engines_that_only_die_end_the_job() -> None:
    with pytest.raises(ClusterError, match=r"died .* times without a result in between; last error: poison"):
        run(["x"] * 1000, Mortal(2, Random(0)), 100)


def test_no_more_is_read_than_engines_can_take() -> None:
    engines = Mortal(3, Random(0))
    seen: Counter[str] = Counter()

    def queries() -> Iterator[str]:
        for number in range(10_000):
            assert number <= 10 * (engines.most_given + 2)
            seen["read"] += 1
            yield "C"

    list(dispatch_pieces(cut_into_shards(queries(), 10), engines))
    assert seen["read"] == 10_000


@pytest.mark.parametrize("rows", [500, 2_500, 10_000, 300_000])
@pytest.mark.parametrize("death_rate", [0.0, 0.02])
def test_sixty_four_simulated_engines_work_from_the_start_to_the_end(rows: int, death_rate: float) -> None:
    size, _, _ = fit_shards(map(str, range(min(rows, 64 * 4000))), 64)
    engines = SimulatedEngines(64, row_seconds=0.017, death_rate=death_rate)
    assert simulate(rows, engines, size) == rows
    assert engines.used == min(64, -(-rows // size))
    assert bool(engines.deaths) == (death_rate > 0 and rows > 500)
    ideal = rows * 0.017 / 64
    assert engines.clock < 1.5 * ideal + 4 * size * 0.017  # the last shards, or those of engines that died
    with_few = SimulatedEngines(64, row_seconds=0.017, death_rate=death_rate)
    simulate(rows, with_few, 10_000)
    assert engines.clock < with_few.clock
