"""The only loop: it merges the questions of all queries, adds drafts, runs the model, answers, and writes the trace.

A decoder cannot tell whether an answer was computed for it or had been prefetched, so whatever a drafter proposes, an exact
decoder returns what it would have returned without.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from chemspec.decode.ask import Ask, Decoder
from chemspec.draft.base import Drafter
from chemspec.model.session import Session
from chemspec.tokenizer import EOS
from chemspec.types import Accepted, Draft, Pass, Prefix, Scores, Written

Clock = Callable[[], float]
Event = tuple[int, Pass]  # which query, and what one model call did for it


@dataclass
class Flight:
    """A query under way: its decoder, what it asks, and every score known for it."""

    source: Sequence[int]
    decoder: Decoder
    asked: Ask = ()
    known: dict[Prefix, Scores] = field(default_factory=dict)
    origin: dict[Prefix, tuple[Draft, int]] = field(default_factory=dict)  # drafted prefix -> draft, place in it
    answer: list[Written] | None = None

    def start(self) -> None:
        try:
            self.asked = next(self.decoder)
        except StopIteration as stop:
            self.answer = stop.value

    def missing(self) -> list[Prefix]:
        return [prefix for prefix in self.asked if prefix not in self.known]

    def go_on(self) -> tuple[int, float]:
        """Answer the decoder as long as all it asks is known; returns steps taken and the smallest top-2 margin seen."""
        steps, margin = 0, float("inf")
        while self.answer is None and all(prefix in self.known for prefix in self.asked):
            scores = [self.known[prefix] for prefix in self.asked]
            margin = min(margin, *(score.margin for score in scores))
            steps += 1
            try:
                self.asked = self.decoder.send(scores)
            except StopIteration as stop:
                self.answer = stop.value
        return steps, margin


def drive(
    sources: Sequence[Sequence[int]],
    decoders: Sequence[Decoder],
    session: Session,
    drafter: Drafter,
    *,
    max_len: int,
    budget: int,
    clock: Clock,
) -> Generator[list[Event], None, list[list[Written]]]:
    """Run decoders to their ends; yields after every model call what it did for each query.

    Args:
        sources: token ids of the queries; `session` was opened on the same, in the same order.
        max_len: most tokens of an answer: no draft goes further.
        budget: most nodes that drafts may add to a pass for one query.
        clock: seconds, from any origin.

    Returns:
        What each decoder returned.
    """
    flights = [Flight(source, decoder) for source, decoder in zip(sources, decoders, strict=True)]
    for flight in flights:
        flight.start()
    session.drop(query for query, flight in enumerate(flights) if flight.answer is not None)
    while session.rows:
        began = clock()
        active = [flights[query] for query in session.rows]
        missing = [flight.missing() for flight in active]
        rows = [
            [*prefixes, *_prefetch(flight, prefixes, drafter, max_len, budget)]
            for flight, prefixes in zip(active, missing, strict=True)
        ]
        ready = clock()
        scored = session.score(rows)
        done = clock()
        events = []
        for query, flight, prefixes, scores in zip(session.rows, active, missing, scored, strict=True):
            before = flight.asked
            flight.known.update(scores)
            emitted, margin = flight.go_on()
            spans = _accepted(flight, before[0], emitted)
            accepted = sum(span.length for span in spans)
            drafted = len(scores) - len(prefixes)
            event = Pass(
                len(prefixes), len(scores), drafted, emitted, accepted, margin, len(active), ready - began, done - ready,
                spans,
            )  # fmt: skip
            events.append((query, event))
        session.drop(query for query in list(session.rows) if flights[query].answer is not None)
        session.prune({query: flights[query].asked for query in session.rows})
        yield events
    return [flight.answer or [] for flight in flights]


def _prefetch(
    flight: Flight, prefixes: Sequence[Prefix], drafter: Drafter, max_len: int, budget: int
) -> list[Prefix]:
    """The drafted prefixes worth computing now: known ones, shared ones and those beyond the limit cost nothing."""
    added: dict[Prefix, None] = {}
    for prefix in prefixes:
        # The prefix of max_len tokens is an answer, not a question, hence no node for it.
        room = max_len - len(prefix)
        for draft in drafter.propose(flight.source, prefix, room) if room > 0 else ():
            grown = prefix
            for place, token in enumerate(draft.tokens[:room]):
                if token == EOS:
                    flight.origin.setdefault((*grown, EOS), (draft, place))
                    break
                grown = (*grown, token)
                if grown in flight.known or grown in added:
                    flight.origin.setdefault(grown, (draft, place))
                    continue
                if len(added) >= budget:
                    return list(added)
                added[grown] = None
                flight.origin.setdefault(grown, (draft, place))
    return list(added)


def _accepted(flight: Flight, before: Prefix, emitted: int) -> tuple[Accepted, ...]:
    """Which of the tokens just emitted had been drafted, as runs copied from one span.

    The last emitted token is always the model's own: nothing was asked beyond it. For several hypotheses this follows the
    first one.
    """
    text = (1, *flight.answer[0].tokens) if flight.answer else flight.asked[0]
    runs: list[Accepted] = []
    for length in range(len(before) + 1, min(len(before) + emitted, len(text) + 1)):
        found = flight.origin.get(tuple(text[:length]))
        if found is None:
            continue
        draft, place = found
        start = length - 2  # place of the token in the answer, which does not count bos
        span = None if draft.span is None else (draft.span[0] + place, draft.span[0] + place + 1)
        last = runs[-1] if runs else None
        joins = last is not None and last.start + last.length == start and last.drafter == draft.drafter
        if last is not None and joins and (span is None or (last.span is not None and last.span[1] == span[0])):
            grown = None if span is None or last.span is None else (last.span[0], span[1])
            runs[-1] = Accepted(last.start, last.length + 1, last.drafter, grown)
        else:
            runs.append(Accepted(start, 1, draft.drafter, span))
    return tuple(runs)
