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
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from chemspec.decode.compiled.loop import compiled_loop
from chemspec.decode.planner import Planner
from chemspec.decode.protocol import Decoder, Limits, Search
from chemspec.decode.python_loop import PythonLoop
from chemspec.draft.base import Drafter
from chemspec.model.session import Session
from chemspec.types import Continued, FinishedSequence, Pass

Clock = Callable[[], float]
Event = tuple[int, Pass]  # which query, and what one model call did for it


class Loop(Protocol):
    """What runs the passes of a batch: `PythonLoop`, or `CompiledLoop` with the same passes and answers."""

    def start_pass(self) -> None:
        """Draft, and let the model score, if it computes beside the host; else this may be left to `finish_pass`."""

    def finish_pass(self) -> None:
        """Let the decoders go on with the scores."""

    def run_passes(self) -> None:
        """Do a whole pass, or several in a row, but none after a query's last."""

    def join(self, sources: Sequence[Sequence[int]], decoders: Sequence[Decoder]) -> None:
        """Take on queries, which the session has taken on before."""

    def answers(self, query: int) -> list[FinishedSequence]:
        """Return what a decoder returned, answers best first; an empty list if it is not done."""

    def searches(self, query: int) -> list[Search]:
        """Return the searches of a finished query, one after the other."""

    def passes(self, query: int) -> list[Pass]:
        """Return what each model call so far did for a query."""

    def seconds(self, query: int) -> float:
        """Return the clock's reading after a query's last pass."""

    def forget(self, query: int) -> None:
        """Free what is known of a finished query."""


class Decoded(NamedTuple):
    """What became of a query, in the last of its searches.

    Attributes:
        answers: best first.
        passes: what each model call did for it.
        seconds: from the end of the search before it, or from when it was taken on, or from the clock's origin if that
            was at the start, to its last pass.
        earlier: the searches before it, one after the other.
        continued: set for a search that went on from the scores of those.
    """

    answers: list[FinishedSequence]
    passes: list[Pass]
    seconds: float
    earlier: tuple[Decoded, ...] = ()
    continued: Continued | None = None


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
        planner: Planner | None = None,
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
            planner: of this run, says how many nodes are worth it; without one, drafts add what the budget allows.
            threads: of the compiled loop, which divides large batches among them.
            compiled: whether the compiled loop runs; by default wherever it can.

        Raises:
            ValueError: if the compiled loop was asked for and cannot run.
        """
        self._session, self._clock = session, clock
        self._began = dict.fromkeys(range(len(sources)), 0.0)  # of the queries not taken yet
        self._joined = len(sources)
        limits = Limits(max_len, budget, vocab_size)
        loop: Loop | None = None
        if compiled is not False:
            loop = compiled_loop(
                *(sources, decoders, session, drafter, limits),
                planner=planner,
                clock=clock,
                record=record,
                threads=threads,
            )
        if compiled and loop is None:
            raise ValueError("the compiled loop cannot run: no compiled code, or none that knows what is asked")
        self._loop: Loop = loop or PythonLoop(
            sources, decoders, session, drafter, limits, planner=planner, clock=clock, record=record
        )

    @property
    def passes(self) -> list[list[Pass]]:
        """Of every query not taken, what each model call so far did for it."""
        return [self._loop.passes(query) for query in self._began]

    @property
    def seconds(self) -> list[float]:
        """Of every query not taken, the clock's reading after its last pass."""
        return [self._loop.seconds(query) for query in self._began]

    def __iter__(self) -> Iterator[list[Event]]:
        """Run pass after pass; yields after each what it did for every query that took part."""
        while numbers := self._session.queries:
            self.start_pass()
            self.finish_pass()
            yield [(number, self._loop.passes(number)[-1]) for number in numbers]

    @property
    def done(self) -> bool:
        """Whether no pass is left."""
        return not self._session.queries

    @property
    def can_join(self) -> bool:
        """Whether it takes on queries while others are under way."""
        return self._session.can_join

    def join(self, sources: Sequence[Sequence[int]], decoders: Sequence[Decoder]) -> range:
        """Take on queries between two passes, if it `can_join`; returns their numbers.

        Args:
            sources: token ids of the queries.
            decoders: one for each, of the kinds that there are already.
        """
        began, first = self._clock(), self._joined
        self._session.join(sources)
        self._loop.join(sources, decoders)
        self._joined += len(sources)
        numbers = range(first, self._joined)
        self._began.update(dict.fromkeys(numbers, began))
        return numbers

    def finished(self) -> list[int]:
        """Return the numbers of the queries that are finished and not taken."""
        under_way = self._session.trees
        return [query for query in self._began if query not in under_way]

    def take(self, query: int) -> Decoded:
        """Return what became of a finished query, and forget it."""
        loop, done, began = self._loop, list[Decoded](), self._began.pop(query)
        first, passes = 0, loop.passes(query)
        for search in loop.searches(query):
            seconds = search.seconds - began if search.passes > first else 0.0
            continued = Continued(search.tokens, search.standard) if done else None
            done.append(Decoded(search.answers, passes[first : search.passes], seconds, continued=continued))
            first, began = search.passes, search.seconds
        loop.forget(query)
        return done[-1]._replace(earlier=tuple(done[:-1]))

    def start_pass(self) -> None:
        """Begin a pass, which `finish_pass` ends: what may be done between the two, a device need not wait for."""
        self._loop.start_pass()

    def finish_pass(self) -> None:
        """End the pass that was begun."""
        self._loop.finish_pass()

    def run_passes(self) -> None:
        """Do a whole pass, or where nothing needs to be done between them several in a row, for some milliseconds."""
        self._loop.run_passes()

    def run_to_end(self, before_pass: Callable[[], None] = lambda: None) -> list[list[FinishedSequence]]:
        """Run the passes that are left, and return what every decoder not taken returned, answers best first.

        What `before_pass`, which is called before each `run_passes`, raises ends the run.
        """
        while not self.done:
            before_pass()
            self.run_passes()
        return [self._loop.answers(query) for query in self._began]
