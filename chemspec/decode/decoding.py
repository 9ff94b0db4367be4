"""Choose the loop that runs a batch of decoders, compiled or in Python (`python_loop`), and drive it pass by pass.

Why drafts cannot change an exact decoder's answers. A decoder is a generator: it yields the prefixes whose scores it
needs, is sent those scores, and has no other input (a look-ahead, which is shown guesses, must change nothing that it
reads later). The scores of a prefix are a function of the source and the prefix
alone; the session computes it alike, whoever asks (`chemspec.model.session`). A draft only decides which prefixes are
computed before they are requested: `QueryState.scores` then holds them already. So the decoder is sent the same scores
in the same order as without drafts, and returns the same; an accepted draft is one whose prefixes it turns out to
request. (How far this holds in floating point: assets/docs/how-it-works.md, "Up to arithmetic".)
Only a decoder that is given the drafter itself (`decode.registry.DraftAwareDecoder`) is outside this argument.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

from chemspec.decode.compiled.loop import can_run, compiled_loop
from chemspec.decode.protocol import Decoder, Limits
from chemspec.decode.python_loop import PythonLoop
from chemspec.draft.base import Drafter
from chemspec.model.session import Session
from chemspec.types import FinishedSequence, Pass

T = TypeVar("T")
DIVIDED = 32  # queries from which on a batch is decoded in halves: the host then takes about as long as a GPU's pass
Clock = Callable[[], float]
Event = tuple[int, Pass]  # which query, and what one model call did for it


class Loop(Protocol):
    """What runs the passes of a batch: `PythonLoop`, or `CompiledLoop` with the same passes and answers."""

    def start_pass(self) -> None:
        """Draft, and let the model score, if it computes beside the host; else this may be left to `finish_pass`."""

    def finish_pass(self) -> None:
        """Let the decoders go on with the scores."""

    def answers(self) -> list[list[FinishedSequence]]:
        """Return what every decoder returned, answers best first; an empty list for one that is not done."""

    def passes(self) -> list[list[Pass]]:
        """Return of every query what each model call so far did for it."""

    def seconds(self) -> list[float]:
        """Return of every query the clock's reading after its last pass."""


class Decoding:
    """Queries being decoded: iterate over it, one item a model call, then call `run_to_end` for the answers."""

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        decoders: Sequence[Decoder],
        session: Session,
        drafter: Drafter,
        *,
        max_len: int,
        budget: int,
        clock: Clock,
        record: bool = False,
        vocab_size: int = sys.maxsize,
        threads: int = 1,
        compiled: bool | None = None,
    ) -> None:
        """Start the decoders.

        Args:
            sources: token ids of the queries; `session` was opened on the same, in the same order.
            decoders: one for each.
            session: scores their prefixes.
            drafter: proposes what to score ahead.
            max_len: most tokens of an answer: no draft goes further.
            budget: most nodes that drafts may add to a pass for one query.
            clock: seconds, from any origin.
            record: keep every prefix computed in the passes, which takes time and memory.
            vocab_size: of the model; running raises ValueError if a draft holds an id beyond it.
            threads: of the compiled loop, which divides large batches among them.
            compiled: whether the compiled loop runs; by default wherever it can.

        Raises:
            ValueError: if the compiled loop was asked for and cannot run.
        """
        self._session = session
        limits = Limits(max_len, budget, vocab_size)
        loop: Loop | None = None
        if compiled is not False:
            loop = compiled_loop(
                sources, decoders, session, drafter, limits, clock=clock, record=record, threads=threads
            )
        if compiled and loop is None:
            raise ValueError("the compiled loop cannot run: there is no compiler, or it does not know what is asked")
        self._loop: Loop = loop or PythonLoop(sources, decoders, session, drafter, limits, clock=clock, record=record)

    @property
    def passes(self) -> list[list[Pass]]:
        """Of every query, what each model call so far did for it."""
        return self._loop.passes()

    @property
    def seconds(self) -> list[float]:
        """Of every query, the clock's reading after its last pass."""
        return self._loop.seconds()

    def __iter__(self) -> Iterator[list[Event]]:
        """Run pass after pass; yields after each what it did for every query that took part."""
        while numbers := self._session.queries:
            self.start_pass()
            self.finish_pass()
            passes = self._loop.passes()
            yield [(number, passes[number][-1]) for number in numbers]

    @property
    def done(self) -> bool:
        """Whether no pass is left."""
        return not self._session.queries

    def start_pass(self) -> None:
        """Begin a pass, which `finish_pass` ends: what may be done between the two, a device need not wait for."""
        self._loop.start_pass()

    def finish_pass(self) -> None:
        """End the pass that was begun."""
        self._loop.finish_pass()

    def run_to_end(self, before_pass: Callable[[], None] = lambda: None) -> list[list[FinishedSequence]]:
        """Run the passes that are left, and return what every decoder returned, answers best first.

        What `before_pass` raises ends the run.
        """
        while not self.done:
            before_pass()
            self.start_pass()
            self.finish_pass()
        return self._loop.answers()


def divides(count: int, backend: object, decoder: Decoder, drafter: Drafter) -> bool:
    """Whether a batch is decoded in halves, `InTurn`: it is large, and a device computes while the host goes on.

    Args:
        count: of queries.
        backend: the model; one on a device says that it `overlaps`.
        decoder: of a query, not started.
        drafter: of the run.
    """
    return count >= DIVIDED and getattr(backend, "overlaps", False) and can_run([decoder], drafter)


class InTurn:
    """A batch decoded in parts: while a device computes a pass of one, the host does the work of the others.

    Query i is number i // parts of part i % parts. A query's passes are those that it has in an undivided batch, unless
    the drafter goes by the number of queries.
    """

    def __init__(self, parts: Sequence[Decoding]) -> None:
        self._parts = parts

    @property
    def passes(self) -> list[list[Pass]]:
        """See `Decoding.passes`."""
        return _merged([part.passes for part in self._parts])

    @property
    def seconds(self) -> list[float]:
        """See `Decoding.seconds`."""
        return _merged([part.seconds for part in self._parts])

    def run_to_end(self, before_pass: Callable[[], None] = lambda: None) -> list[list[FinishedSequence]]:
        """Run all passes and return what every decoder returned, answers best first; see `Decoding.run_to_end`."""
        under_way = deque(part for part in self._parts if not part.done)
        for part in under_way:
            before_pass()
            part.start_pass()
        while under_way:
            part = under_way.popleft()
            part.finish_pass()
            if not part.done:
                before_pass()
                part.start_pass()
                under_way.append(part)
        return _merged([part.run_to_end() for part in self._parts])


def _merged(parts: Sequence[list[T]]) -> list[T]:
    """Put together what has been dealt out in turn."""
    found: dict[int, T] = {}
    for number, part in enumerate(parts):
        found.update((number + place * len(parts), one) for place, one in enumerate(part))
    return [found[index] for index in range(len(found))]
