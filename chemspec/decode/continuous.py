"""Continuous batching: finished queries are replaced at once.

On a GPU two half-batches alternate, so that host and device work overlap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from chemspec.decode.compiled.loop import can_run_compiled
from chemspec.decode.decoding import Decoded, Decoding
from chemspec.decode.protocol import Decoder
from chemspec.draft.base import Drafter

Row = TypeVar("Row")
Join = Callable[[Sequence[Row]], Sequence[int]]  # adds queries to a session; returns their numbers
SPLIT_BATCH_FROM = 32  # batch size from which it is split: the host then takes about as long as a GPU's forward pass
REFILL_DIVISOR = 8  # queries are added once 1/8 of the batch is free, so that their sources are encoded together
MAX_QUERIES_PER_SESSION = 4096  # every forward pass iterates over the numbers of all queries so far


def should_split_batch(count: int, backend: object, decoder: Decoder, drafter: Drafter) -> bool:
    """Return whether a batch is decoded in halves: if it is large and the device computes asynchronously.

    Args:
        count: number of queries.
        backend: the model; asynchronous ones have `overlaps` set.
        decoder: decoder of a query, not started.
        drafter: drafter of the run.
    """
    return count >= SPLIT_BATCH_FROM and getattr(backend, "overlaps", False) and can_run_compiled([decoder], drafter)


@dataclass
class _SubBatch(Generic[Row]):
    """A half-batch: its decoding, its unfinished queries by number, and the number of queries so far."""

    decoding: Decoding
    join: Join[Row]
    rows: dict[int, Row]
    seen: int

    def take_finished(self) -> Iterator[tuple[Row, Decoded]]:
        """Yield the finished queries with their results, and remove them."""
        for number in self.decoding.finished_queries():
            yield self.rows.pop(number), self.decoding.take_result(number)


def continuous_batching(
    more: Callable[[int], Sequence[Row]],
    begin: Callable[[Sequence[Row]], tuple[Decoding, Join[Row]]],
    *,
    size: int,
    parts: int = 1,
    before_pass: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Row, Decoded]]:
    """Decode queries with continuous batching; yields each query when it has finished.

    If queries cannot be added to a session (`Decoding.can_join`), they wait for the next one. A query's output does not
    depend on its batch, nor does its number of forward passes, unless the drafter depends on the batch size.

    Args:
        more: takes a number and returns up to that many waiting queries, in decoding order; decoding ends when it
            returns none and no query is unfinished.
        begin: opens a session for queries, numbered from 0, and starts their decoders; also returns a function that
            adds queries.
        size: maximum number of unfinished queries, over all parts.
        parts: number of alternating batches: while the device computes the forward pass of one, the host works on the
            others.
        before_pass: called before every forward pass, or every few milliseconds if they are fast; its exceptions end
            the run.
    """
    most = -(-size // parts)  # per part
    under_way: deque[_SubBatch[Row]] = deque()

    def room() -> int:
        return min(most, size - sum(len(part.rows) for part in under_way))

    def go_on(part: _SubBatch[Row]) -> None:
        if part.decoding.is_finished:
            return
        if parts > 1:  # computed while the host works on the other parts
            before_pass()
            part.decoding.start_pass()
        under_way.append(part)

    while True:
        while len(under_way) < parts and (free := room()) and (rows := more(free)):
            part = _SubBatch(*begin(rows), dict(enumerate(rows)), len(rows))
            yield from part.take_finished()  # a decoder may finish without a forward pass
            go_on(part)
        if not under_way:
            return
        part = under_way.popleft()
        if parts > 1:
            part.decoding.finish_pass()
        else:
            before_pass()
            part.decoding.run_passes()
        yield from part.take_finished()
        free = room() - len(part.rows)
        refill = part.seen < MAX_QUERIES_PER_SESSION and free * REFILL_DIVISOR >= most
        if part.decoding.can_add_queries and refill and (rows := more(free)):
            part.rows.update(zip(part.join(rows), rows, strict=True))
            part.seen += len(rows)
            yield from part.take_finished()
        go_on(part)
