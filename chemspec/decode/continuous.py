"""Keep batches full: a query joins when another has finished; and on a device let two batches take turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from chemspec.decode.compiled.loop import can_run
from chemspec.decode.decoding import Decoded, Decoding
from chemspec.decode.protocol import Decoder
from chemspec.draft.base import Drafter

Row = TypeVar("Row")
Join = Callable[[Sequence[Row]], Sequence[int]]  # adds queries to a session; returns their numbers
DIVIDED = 32  # queries from which on a batch is decoded in halves: the host then takes about as long as a GPU's pass
FREE = 8  # an eighth of a batch is free when others join: their sources are encoded together
MOST = 4096  # queries of a session: every pass goes through the numbers of all that it has seen


def divides(count: int, backend: object, decoder: Decoder, drafter: Drafter) -> bool:
    """Whether a batch is decoded in halves: it is large, and a device computes while the host goes on.

    Args:
        count: of queries.
        backend: the model; one on a device says that it `overlaps`.
        decoder: of a query, not started.
        drafter: of the run.
    """
    return count >= DIVIDED and getattr(backend, "overlaps", False) and can_run([decoder], drafter)


@dataclass
class _Part(Generic[Row]):
    """A batch, the queries of each number that is under way, and how many it has had."""

    decoding: Decoding
    join: Join[Row]
    rows: dict[int, Row]
    seen: int

    def finished(self) -> Iterator[tuple[Row, Decoded]]:
        """Take what has finished."""
        for number in self.decoding.finished():
            yield self.rows.pop(number), self.decoding.take(number)


def keep_full(
    more: Callable[[int], Sequence[Row]],
    begin: Callable[[Sequence[Row]], tuple[Decoding, Join[Row]]],
    *,
    size: int,
    parts: int = 1,
    before_pass: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Row, Decoded]]:
    """Decode queries that keep coming, and return each as it finishes.

    Where a session cannot be joined (`Decoding.can_join`), queries wait for the next one. A query's answers do not
    depend on its company, nor do its passes, unless the drafter goes by the number of queries.

    Args:
        more: returns at most so many queries that wait, in the order in which they are to be decoded; where it returns
            none while none is under way, that is the end.
        begin: opens a session for queries, numbered from 0, starts their decoders, and returns also what adds others.
        size: most queries under way, of all parts together.
        parts: batches that take turns: while a device computes a pass of one, the host does the work of the others.
        before_pass: called before every pass, or where they are quick every few milliseconds; what it raises ends the
            run.
    """
    most = -(-size // parts)  # of a part
    under_way: deque[_Part[Row]] = deque()

    def room() -> int:
        return min(most, size - sum(len(part.rows) for part in under_way))

    def go_on(part: _Part[Row]) -> None:
        if part.decoding.done:
            return
        if parts > 1:  # its pass is computed while the others have their turn
            before_pass()
            part.decoding.start_pass()
        under_way.append(part)

    while True:
        while len(under_way) < parts and (free := room()) and (rows := more(free)):
            part = _Part(*begin(rows), dict(enumerate(rows)), len(rows))
            yield from part.finished()  # a decoder may need no pass
            go_on(part)
        if not under_way:
            return
        part = under_way.popleft()
        if parts > 1:
            part.decoding.finish_pass()
        else:
            before_pass()
            part.decoding.run_passes()
        yield from part.finished()
        free = room() - len(part.rows)
        if part.decoding.can_join and part.seen < MOST and free * FREE >= most and (rows := more(free)):
            part.rows.update(zip(part.join(rows), rows, strict=True))
            part.seen += len(rows)
            yield from part.finished()
        go_on(part)
