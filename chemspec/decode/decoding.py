"""Decode a batch of queries: choose the compiled or the Python loop and run it, one forward pass at a time.

Why drafts cannot change the output of an exact decoder. A decoder is a generator: it yields the prefixes whose scores
it needs, is sent those scores, and has no other input (a look-ahead sees guesses, but must not change the decoder's
state). The scores of a prefix are a function of the source and the prefix alone (`chemspec.model.session`). A draft
only determines which prefixes are computed before they are requested: `QueryState.scores` then contains them already.
So the decoder is sent the same scores in the same order as without drafts and returns the same output; a drafted token
is accepted if the decoder turns out to request its prefix. (How far this holds in floating point:
assets/docs/how-it-works.md, "Floating point".) Decoders that are given the drafter itself
(`decode.registry.DraftAwareDecoder`) are outside this argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from chemspec.decode.compiled.loop import CompiledLoop, can_run_compiled
from chemspec.decode.protocol import Decoder, LoopOptions
from chemspec.decode.python_loop import PythonLoop
from chemspec.draft.base import Drafter, as_drafter
from chemspec.model.session import Session
from chemspec.types import FinishedSequence, Pass, StandardCost

Event = tuple[int, Pass]  # number of a query, and its record of one forward pass


class Decoded(NamedTuple):
    """Result of a query's last search."""

    answers: list[FinishedSequence]  # output sequences, best first
    passes: list[Pass]  # records of its forward passes
    # Time until its last forward pass, from the end of the search before, or else from when the query was added (the
    # clock's origin for queries given at the start).
    seconds: float
    earlier: tuple[Decoded, ...] = ()  # results of the searches before, in order
    standard_cost: StandardCost | None = None  # set if earlier searches were reused, or steps are no tokens


class Decoding:
    """Queries being decoded: iterate over it, one item per forward pass, then call `run_to_end` for the outputs."""

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        decoders: Sequence[Decoder],
        session: Session,
        drafter: Drafter,
        options: LoopOptions,
    ) -> None:
        """Start the decoders of queries, on whose token ids `session` was opened in the same order.

        Raises ValueError if `options.compiled` is set and the compiled loop cannot run.
        """
        drafter = as_drafter(drafter)
        if not options.budget:
            options = replace(options, planner=None)
        self._session, self._clock, self._finished = session, options.clock, options.finished
        self._began = dict.fromkeys(session.queries, 0.0)  # start times of the queries whose result is not taken
        can_run = options.compiled is not False and session.is_plain and can_run_compiled(decoders, drafter)
        if options.compiled and not can_run:
            raise ValueError("the compiled loop cannot run: it was not compiled, or lacks this decoder or drafter")
        self._loop: CompiledLoop | PythonLoop = (CompiledLoop if can_run else PythonLoop)(session, drafter, options)
        self._loop.add_queries(session.queries, sources, decoders)

    def __iter__(self) -> Iterator[list[Event]]:
        """Run one forward pass after the other; yields the records of all queries in it."""
        while numbers := self._session.queries:
            self._loop.run_pass()
            yield [(number, self._loop.recorded_passes(number)[-1]) for number in numbers]

    @property
    def is_finished(self) -> bool:
        """Whether all queries are finished."""
        return not self._session.sources

    @property
    def can_add_queries(self) -> bool:
        """Whether queries can be added between forward passes."""
        return self._session.runner.can_join

    def add_queries(self, sources: Sequence[Sequence[int]], decoders: Sequence[Decoder]) -> range:
        """Add queries between two forward passes, if `can_add_queries`; returns their numbers."""
        began, numbers = self._clock(), self._session.join(sources)
        self._loop.add_queries(numbers, sources, decoders)
        self._began.update(dict.fromkeys(numbers, began))
        return numbers

    def finished_queries(self) -> list[int]:
        """Return the numbers of the finished queries whose result is not taken."""
        under_way = self._session.sources
        return [query for query in self._began if query not in under_way]

    def take_result(self, query: int) -> Decoded:
        """Return the result of a finished query and delete its records."""
        done, began = list[Decoded](), self._began.pop(query)
        first, passes = 0, self._loop.recorded_passes(query)
        for search in self._loop.take_searches(query):
            seconds = search.seconds - began if search.passes > first else 0.0
            # From scratch and without drafts, most searches take one pass for each token.
            usual = not done and search.standard == search.tokens
            standard_cost = None if usual else StandardCost(search.tokens, search.standard)
            done.append(Decoded(search.answers, passes[first : search.passes], seconds, standard_cost=standard_cost))
            first, began = search.passes, search.seconds
            self._finished(search.answers)
        return done[-1]._replace(earlier=tuple(done[:-1]))

    def run_passes(self) -> None:
        """Run one forward pass, or several in a row for some milliseconds if no query finishes."""
        self._loop.run_passes()

    def run_to_end(self) -> list[list[FinishedSequence]]:
        """Run until all queries are finished; returns the output sequences of those whose result is not taken."""
        while not self.is_finished:
            self.run_passes()
        return [self.take_result(query).answers for query in list(self._began)]
