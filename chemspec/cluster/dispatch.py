"""Dispatch pieces of work to engines that may die, so that each piece is processed exactly once.

Independent of Ray, files and clocks: `engines.py` implements engines on a cluster.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chemspec.types import ignore

DEATHS_OF_A_SHARD = 2  # then its rows are processed one by one, since one of them may be the cause
DEATHS_OF_A_ROW = 3  # then the row fails; two deaths may be unrelated failures of machines
ROUNDS = 4  # number of times that all engines may die without a result


class ClusterError(ValueError):
    """A job that cannot continue; its output so far is valid."""


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of the input, within one shard."""

    shard: int  # number of the shard
    first: int  # index of the first row in the input
    queries: Sequence[str]  # text of the rows
    deaths: int = 0  # number of engines that died while processing it


def dispatch_pieces(
    work: Iterable[Piece], engines: Any, lost: Callable[[str], None] = ignore
) -> Iterator[tuple[Piece, Any]]:
    """Process complete shards, reading only as many as engines can take; yields each, or its parts, with the result.

    A piece whose engine dies is processed again. The rows of a shard on which `DEATHS_OF_A_SHARD` engines have died are
    processed one by one; the result of a row on which `DEATHS_OF_A_ROW` have died is None.

    Args:
        work: the shards.
        engines: has the methods `size`, `submit` and `wait` of `engines.RayEngines`.
        lost: called with the cause of every death.

    Raises:
        ClusterError: if engines die repeatedly without a result in between.
    """
    unread, retried = iter(work), deque[Piece]()
    in_progress = deaths_in_a_row = max_engines = 0
    while True:
        max_engines = max(max_engines, size := engines.size())
        while in_progress < size and (piece := retried.popleft() if retried else next(unread, None)):
            engines.submit(piece)
            in_progress += 1
        if not in_progress:
            return
        for piece, result, death in engines.wait():
            in_progress -= 1
            if result is not None:
                deaths_in_a_row = 0
                yield piece, result
                continue
            lost(death)
            deaths_in_a_row += 1
            if deaths_in_a_row > ROUNDS * max(4, max_engines):
                raise ClusterError(
                    f"engines died {deaths_in_a_row} times without a result in between; last error: {death}"
                )
            piece = replace(piece, deaths=piece.deaths + 1)
            if len(piece.queries) > 1 and piece.deaths >= DEATHS_OF_A_SHARD:
                retried += [Piece(piece.shard, piece.first + at, [query]) for at, query in enumerate(piece.queries)]
            elif piece.deaths >= DEATHS_OF_A_ROW:
                yield piece, None
            else:
                retried.append(piece)
