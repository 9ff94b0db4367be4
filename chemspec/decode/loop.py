"""Choose the loop that runs a batch of decoders, compiled or in Python (`python_loop`), and drive it pass by pass.

Why drafts cannot change an exact decoder's answers. A decoder is a generator: it yields the prefixes whose scores it
needs, is sent those scores, and has no other input. The scores of a prefix are a function of the source and the prefix
alone; the session computes it alike, whoever asks (`chemspec.model.session`). A draft only decides which prefixes are
computed before they are requested: `QueryState.scores` then holds them already. So the decoder is sent the same scores
in the same order as without drafts, and returns the same; an accepted draft is one whose prefixes it turns out to
request. (How far this holds in floating point: assets/docs/how-it-works.md, "Up to arithmetic".)
Only a decoder that is given the drafter itself (`decode.registry.DraftAwareDecoder`) is outside this argument.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from chemspec.decode.compiled.loop import compiled_loop
from chemspec.decode.protocol import Decoder, Limits
from chemspec.decode.python_loop import PythonLoop
from chemspec.draft.base import Drafter
from chemspec.model.session import Session
from chemspec.types import FinishedSequence, Pass

Clock = Callable[[], float]
Event = tuple[int, Pass]  # which query, and what one model call did for it


class Loop(Protocol):
    """What runs the passes of a batch: `PythonLoop`, or `CompiledLoop` with the same passes and answers."""

    def run_pass(self) -> None:
        """Draft, score, and let the decoders go on."""

    def answers(self) -> list[list[FinishedSequence]]:
        """Return what every decoder returned, answers best first; of one that is not done nothing."""

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
            self._loop.run_pass()
            passes = self._loop.passes()
            yield [(number, passes[number][-1]) for number in numbers]

    def run_to_end(self, before_pass: Callable[[], None] = lambda: None) -> list[list[FinishedSequence]]:
        """Run the passes that are left, and return what every decoder returned, answers best first.

        What `before_pass` raises ends the run.
        """
        while self._session.queries:
            before_pass()
            self._loop.run_pass()
        return self._loop.answers()
