"""Dispatch pieces of work to engines that may die, so that each piece is processed exactly once.

Independent of Ray, files and clocks: `engines.py` implements engines on a cluster.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

DEATHS_OF_A_SHARD = 2  # then the shard is halved, since one of its rows may be the cause
DEATHS_OF_A_ROW = 3  # then the row fails; two deaths may be unrelated failures of machines
ROUNDS = 4  # number of times that all engines may die without a result

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class ClusterError(ValueError):
    """A job that cannot continue; its output so far is valid."""


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of the input, within one shard."""

    shard: int  # number of the shard
    first: int  # index of the first row in the input
    queries: Sequence[str]  # text of the rows
    deaths: int = 0  # number of engines that died while processing it
    half: bool = False  # whether it is part of a piece on which engines died


@dataclass(frozen=True)
class Answered(Generic[R_co]):
    """An engine has finished a piece."""

    piece: Piece
    result: R_co


@dataclass(frozen=True)
class Lost:
    """An engine has died, while processing a piece or idle."""

    piece: Piece | None
    why: str


class Engines(Protocol[R_co]):
    """Engines that process pieces; dead ones are replaced if there are machines."""

    def free(self) -> int:
        """Return the number of idle engines."""

    def busy(self) -> int:
        """Return the number of pieces in progress."""

    def size(self) -> int:
        """Return the number of engines, including those that are loading."""

    def give(self, piece: Piece) -> None:
        """Assign a piece to an idle engine."""

    def wait(self) -> Sequence[Answered[R_co] | Lost]:
        """Wait for events, at most some seconds; new engines may be idle afterwards."""


def dispatch_pieces(
    work: Iterable[Piece],
    engines: Engines[R],
    answered: Callable[[Piece, R], None],
    given_up: Callable[[Piece], R],
    lost: Callable[[Lost], None] = lambda _: None,
) -> None:
    """Process all pieces, complete shards, reading only as many as engines can take.

    A piece whose engine dies is assigned to another one. A shard on which `DEATHS_OF_A_SHARD` engines have died is
    halved, repeatedly, until the failing row is isolated; that row fails (`given_up` returns its result) and the others
    are processed. `answered` is called once with each piece, or with the parts of it, and its result, `lost` for every
    death. ClusterError if engines die repeatedly without a result in between.
    """
    unread = iter(work)
    queue = deque([piece for piece in [next(unread, None)] if piece])
    deaths_in_a_row = max_engines = 0
    while queue or engines.busy():
        while queue and engines.free():
            engines.give(queue.popleft())
            if not queue and (piece := next(unread, None)):
                queue.append(piece)
        max_engines = max(max_engines, engines.size())
        for event in engines.wait():
            if isinstance(event, Answered):
                deaths_in_a_row = 0
                answered(event.piece, event.result)
                continue
            lost(event)
            deaths_in_a_row += 1
            if deaths_in_a_row > ROUNDS * max(4, max_engines):
                raise ClusterError(
                    f"engines died {deaths_in_a_row} times without a result in between; last error: {event.why}"
                )
            for piece in _pieces_to_retry(event.piece):
                if piece.deaths >= DEATHS_OF_A_ROW:
                    answered(piece, given_up(piece))
                else:
                    queue.append(piece)  # last, so that failing rows do not delay the others


def _pieces_to_retry(piece: Piece | None) -> list[Piece]:
    if piece is None:
        return []
    piece = replace(piece, deaths=piece.deaths + 1)
    rows = len(piece.queries)
    if rows == 1 or not (piece.half or piece.deaths >= DEATHS_OF_A_SHARD):
        return [piece]
    middle = rows // 2
    parts = ((piece.first, piece.queries[:middle]), (piece.first + middle, piece.queries[middle:]))
    return [Piece(piece.shard, first, queries, half=True) for first, queries in parts]
