"""Hand out pieces of work to engines that may die, so that each piece is answered exactly once.

Nothing here knows Ray, files or clocks: `engines.py` brings engines on a cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

DEATHS_OF_A_SHARD = 2  # then it is halved: one of its rows may be what kills
DEATHS_OF_A_ROW = 3  # then it is given up; two may be by chance, as machines die for other reasons too
ROUNDS = 4  # so many times all engines may die without one answer between

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ClusterError(ValueError):
    """A job that cannot go on; what it has written stays valid."""


@dataclass(frozen=True)
class Piece:
    """Some rows of the input that follow each other, all of one shard.

    Attributes:
        shard: its number.
        first: the place of the first row in the input.
        queries: the rows' texts.
        deaths: of engines that were answering it.
        half: whether it is a part of what has killed engines.
    """

    shard: int
    first: int
    queries: Sequence[str]
    deaths: int = 0
    half: bool = False


@dataclass(frozen=True)
class Answered(Generic[R_co]):
    """An engine has answered a piece."""

    piece: Piece
    result: R_co


@dataclass(frozen=True)
class Lost:
    """An engine has died, over a piece or idly."""

    piece: Piece | None
    why: str


class Engines(Protocol[R_co]):
    """Engines that answer pieces; those that die are replaced as far as there are machines."""

    def free(self) -> int:
        """How many wait for a piece."""

    def busy(self) -> int:
        """How many pieces are being answered."""

    def size(self) -> int:
        """How many engines there are, those that load included."""

    def give(self, piece: Piece) -> None:
        """Let a free engine answer a piece."""

    def wait(self) -> Sequence[Answered[R_co] | Lost]:
        """What has happened since, at the latest after some seconds; new engines may be free then."""


def dispatch(
    work: Iterable[Piece],
    engines: Engines[R],
    answered: Callable[[Piece, R], None],
    given_up: Callable[[Piece], R],
    lost: Callable[[Lost], None] = lambda _: None,
) -> None:
    """Have all pieces answered; no more of them are read than engines can take.

    A piece whose engine dies is answered by another one. A shard that has cost `DEATHS_OF_A_SHARD` engines is halved,
    and so on, until the row to blame stands alone; that row is given up and the others are answered.

    Args:
        work: the pieces, whole shards.
        engines: that answer.
        answered: is called once with each piece, or with parts that make it up, and its result.
        given_up: makes the result of a piece of one row that no engine survives.
        lost: is told of every death.

    Raises:
        ClusterError: if engines die again and again without an answer between.
    """
    unread = iter(work)
    queue = deque([piece for piece in [next(unread, None)] if piece])
    barren = most = 0
    while queue or engines.busy():
        while queue and engines.free():
            engines.give(queue.popleft())
            if not queue and (piece := next(unread, None)):
                queue.append(piece)
        most = max(most, engines.size())
        for event in engines.wait():
            if isinstance(event, Answered):
                barren = 0
                answered(event.piece, event.result)
                continue
            lost(event)
            barren += 1
            if barren > ROUNDS * max(4, most):
                raise ClusterError(f"engines died {barren} times without an answer between, at last: {event.why}")
            for piece in _again(event.piece):
                if piece.deaths >= DEATHS_OF_A_ROW:
                    answered(piece, given_up(piece))
                else:
                    queue.append(piece)  # last, so that what kills does not hold up the others


def _again(piece: Piece | None) -> list[Piece]:
    """What to try after a death over a piece."""
    if piece is None:
        return []
    piece = replace(piece, deaths=piece.deaths + 1)
    rows = len(piece.queries)
    if rows == 1 or not (piece.half or piece.deaths >= DEATHS_OF_A_SHARD):
        return [piece]
    middle = rows // 2
    parts = ((piece.first, piece.queries[:middle]), (piece.first + middle, piece.queries[middle:]))
    return [Piece(piece.shard, first, queries, half=True) for first, queries in parts]
