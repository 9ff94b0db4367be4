"""Dispatch pieces of work to engines that may die, so that each piece is processed exactly once.

Independent of Ray, files and clocks: `engines.py` implements engines on a cluster.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

DEATHS_OF_A_SHARD = 2  # then its rows are processed one by one, since one of them may be the cause
DEATHS_OF_A_ROW = 3  # then the row fails; two deaths may be unrelated failures of machines
ROUNDS = 4  # number of times that all engines may die without a result

R = TypeVar("R")


class ClusterError(ValueError):
    """A job that cannot continue; its output so far is valid."""


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of the input, within one shard."""

    shard: int  # number of the shard
    first: int  # index of the first row in the input
    queries: Sequence[str]  # text of the rows
    deaths: int = 0  # number of engines that died while processing it


@dataclass(frozen=True)
class Finished(Generic[R]):
    """A piece whose engine has finished or died."""

    piece: Piece
    result: R | None
    death: str = ""  # why the engine died; empty if it has finished


class Engines(Protocol[R]):
    """Engines that process pieces; dead ones are replaced if there are machines."""

    def size(self) -> int:
        """Return the number of pieces that can be in progress, at least 1."""

    def give(self, piece: Piece) -> None:
        """Start to process a piece."""

    def wait(self) -> Sequence[Finished[R]]:
        """Wait for pieces in progress, at most some seconds."""


def dispatch_pieces(
    work: Iterable[Piece],
    engines: Engines[R],
    answered: Callable[[Piece, R], None],
    given_up: Callable[[Piece], R],
    lost: Callable[[str], None] = lambda _: None,
) -> None:
    """Process all pieces, complete shards, reading only as many as engines can take.

    A piece whose engine dies is processed again. The rows of a shard on which `DEATHS_OF_A_SHARD` engines have died are
    processed one by one; a row on which `DEATHS_OF_A_ROW` have died fails (`given_up` returns its result). `answered`
    is called once with each piece, or with the parts of it, and its result, `lost` with the cause of every death.
    ClusterError if engines die repeatedly without a result in between.
    """
    unread, retried = iter(work), deque[Piece]()
    in_progress = deaths_in_a_row = max_engines = 0
    while True:
        max_engines = max(max_engines, size := engines.size())
        while in_progress < size and (piece := retried.popleft() if retried else next(unread, None)):
            engines.give(piece)
            in_progress += 1
        if not in_progress:
            return
        for event in engines.wait():
            in_progress -= 1
            if event.result is not None:
                deaths_in_a_row = 0
                answered(event.piece, event.result)
                continue
            lost(event.death)
            deaths_in_a_row += 1
            if deaths_in_a_row > ROUNDS * max(4, max_engines):
                raise ClusterError(
                    f"engines died {deaths_in_a_row} times without a result in between; last error: {event.death}"
                )
            piece = replace(event.piece, deaths=event.piece.deaths + 1)
            if len(piece.queries) > 1 and piece.deaths >= DEATHS_OF_A_SHARD:
                retried += [Piece(piece.shard, piece.first + at, [query]) for at, query in enumerate(piece.queries)]
            elif piece.deaths >= DEATHS_OF_A_ROW:
                answered(piece, given_up(piece))
            else:
                retried.append(piece)
