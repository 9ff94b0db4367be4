"""The only loop: it merges the questions of all queries, adds drafts, runs the model, answers, and writes the trace.

A decoder cannot tell whether an answer was computed for it or had been prefetched, so whatever a drafter proposes, an
exact
decoder returns what it would have returned without.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace

from chemspec.decode.prefetch import DraftTree
from chemspec.decode.protocol import Decoder, ScoreRequest
from chemspec.draft.base import AdaptiveDrafter, BatchedDrafter, CountingDrafter, Drafter, Speculation
from chemspec.model.session import Session
from chemspec.tokenizer import BOS
from chemspec.types import AHEAD, ASKED, AcceptedSpan, Draft, FinishedSequence, Pass, Prefix, Scores, TreeDelta

Clock = Callable[[], float]
Event = tuple[int, Pass]  # which query, and what one model call did for it


@dataclass
class QueryState:
    """A query under way: its decoder, what it asks, and every score known for it."""

    source: Sequence[int]
    decoder: Decoder
    asked: tuple[Prefix, ...] = ()
    known: dict[Prefix, Scores] = field(default_factory=dict)
    origin: dict[Prefix, tuple[Draft, int]] = field(default_factory=dict)  # drafted prefix -> draft, place in it
    numbers: dict[Prefix, int] = field(default_factory=dict)  # of the nodes recorded so far
    answer: list[FinishedSequence] | None = None

    def start(self) -> None:
        try:
            self.asked = next(self.decoder)
        except StopIteration as stop:
            self.answer = stop.value

    def missing(self) -> list[Prefix]:
        return [prefix for prefix in self.asked if prefix not in self.known]

    def go_on(self) -> tuple[int, float]:
        """Answer the decoder as long as all it asks is known; returns steps taken and the smallest top-2 margin
        seen."""
        steps, margin, known = 0, float("inf"), self.known
        while self.answer is None:
            try:
                scores = [known[prefix] for prefix in self.asked]
            except KeyError:
                break
            for score in scores:
                margin = min(margin, score.margin)
            steps += 1
            try:
                self.asked = self.decoder.send(scores)
            except StopIteration as stop:
                self.answer = stop.value
        return steps, margin

    def leading(self) -> Prefix:
        """The text of the first hypothesis so far."""
        return (BOS, *self.answer[0].tokens) if self.answer else self.asked[0]


def run_loop(
    sources: Sequence[Sequence[int]],
    decoders: Sequence[Decoder],
    session: Session,
    drafter: Drafter,
    *,
    max_len: int,
    budget: int,
    clock: Clock,
    record: bool = False,
) -> Generator[list[Event], None, list[list[FinishedSequence]]]:
    """Run decoders to their ends; yields after every model call what it did for each query.

    Args:
        sources: token ids of the queries; `session` was opened on the same, in the same order.
        max_len: most tokens of an answer: no draft goes further.
        budget: most nodes that drafts may add to a pass for one query.
        clock: seconds, from any origin.
        record: keep every prefix computed in the passes, which takes time and memory.

    Returns:
        What each decoder returned.
    """
    flights = [QueryState(source, decoder) for source, decoder in zip(sources, decoders, strict=True)]
    for flight in flights:
        flight.start()
    session.drop(query for query, flight in enumerate(flights) if flight.answer is not None)
    adaptive = drafter if isinstance(drafter, AdaptiveDrafter) else None
    batched = drafter if isinstance(drafter, BatchedDrafter) and budget else None
    counting = drafter if isinstance(drafter, CountingDrafter) else None
    while session.queries:
        began, calls = clock(), counting.calls if counting else 0
        active = [flights[query] for query in session.queries]
        missing = [flight.missing() for flight in active]
        pays = Speculation.LOOKAHEAD if budget else Speculation.OFF
        if adaptive is not None and budget:
            waiting = sum(len(flight.asked) for flight in active)
            pays = adaptive.begin(sum(map(len, missing)), len(active), waiting=waiting)
        if batched is not None:
            batched.prepare(
                [
                    (flight.source, prefix, max_len - len(prefix))
                    for flight, prefixes in zip(active, missing, strict=True)
                    for prefix in prefixes
                    if len(prefix) < max_len
                ]
            )
        plans = [DraftTree(flight.source, flight.known, drafter, max_len, budget) for flight in active]
        for flight, prefixes, plan in zip(active, missing, plans, strict=True):
            if pays is Speculation.OFF:
                break
            look = flight.asked.lookahead if isinstance(flight.asked, ScoreRequest) else None
            if look is not None and pays is Speculation.LOOKAHEAD:
                plan.follow(look(flight.known, plan.guess), prefixes)
            else:
                plan.extend(prefixes)
            flight.origin.update(plan.origin)
        ready = clock()
        scored = session.score([[*own, *plan.added] for own, plan in zip(missing, plans, strict=True)])
        done = clock()
        events = []
        for query, flight, prefixes, scores, plan in zip(session.queries, active, missing, scored, plans, strict=True):
            before = flight.leading()
            flight.known.update(scores)
            grown = _grown(flight, scores, set(prefixes)) if record else None
            emitted, margin = flight.go_on()
            spans = _accepted(flight, before, emitted)
            accepted = sum(span.length for span in spans)
            if adaptive is not None:
                _tell(adaptive, plan, before, flight.leading())
            event = Pass(
                asked=len(prefixes),
                computed=len(scores),
                drafted=len(scores) - len(prefixes),
                emitted=emitted,
                accepted=accepted,
                margin=margin,
                width=len(active),
                draft_seconds=ready - began,
                model_seconds=done - ready,
                spans=spans,
                drafts=tuple(plan.drafts.get(before, ())),
                grown=grown,
                draft_calls=counting.calls - calls if counting else 0,
            )
            events.append((query, event))
        session.drop(query for query in list(session.queries) if flights[query].answer is not None)
        session.prune({query: flights[query].asked for query in session.queries})
        yield events
    return [flight.answer or [] for flight in flights]


def _grown(flight: QueryState, scores: Iterable[Prefix], asked: Container[Prefix]) -> TreeDelta:
    """The nodes just computed and the beam they were computed for, before the decoder goes on."""
    parents, tokens, sources = [], [], []
    for prefix in scores:  # parents first
        draft, place = flight.origin.get(prefix, (None, 0))
        parents.append(flight.numbers.get(prefix[:-1], -1))
        tokens.append(prefix[-1])
        copied = draft.source(place) if draft is not None else None
        sources.append(ASKED if prefix in asked else AHEAD if copied is None else copied)
        flight.numbers[prefix] = len(flight.numbers)
    beam = tuple(flight.numbers[prefix] for prefix in flight.asked)
    return TreeDelta(beam, tuple(parents), tuple(tokens), tuple(sources))


def _tell(drafter: AdaptiveDrafter, plan: DraftTree, before: Prefix, text: Prefix) -> None:
    """Tell the drafter how its drafts after the leading prefix fared."""
    if text[: len(before)] != before:
        return  # another hypothesis has taken the lead
    grown = text[len(before) :]
    for draft in plan.drafts.get(before, ()):
        seen = draft.tokens[: len(grown)]
        matched = 0
        while matched < len(seen) and grown[matched] == seen[matched]:
            matched += 1
        if matched == len(seen) < len(draft.tokens):  # of the next, nothing is known
            draft = replace(draft, tokens=seen)
        if seen:
            drafter.learn(draft, matched)


def _accepted(flight: QueryState, before: Prefix, emitted: int) -> tuple[AcceptedSpan, ...]:
    """Which of the tokens just emitted had been drafted, as runs copied from one span.

    For several hypotheses this follows the first one. The last token of a pass does not count, eos
    included: it is the model's own, for nothing was computed after it.
    """
    text = flight.leading()
    runs: list[AcceptedSpan] = []
    for length in range(len(before) + 1, min(len(before) + emitted, len(text) + 1)):
        found = flight.origin.get(text[:length])
        if found is None:
            continue
        draft, place = found
        start = length - 2  # place of the token in the answer, which does not count bos
        copied = draft.source(place)
        span = None if copied is None else (copied, copied + 1)
        last = runs[-1] if runs else None
        joins = last is not None and last.start + last.length == start and last.drafter == draft.drafter
        if (
            last is not None
            and joins
            and (last.span is None if span is None else last.span is not None and last.span[1] == span[0])
        ):
            grown = None if span is None or last.span is None else (last.span[0], span[1])
            runs[-1] = AcceptedSpan(last.start, last.length + 1, last.drafter, grown)
        else:
            runs.append(AcceptedSpan(start, 1, draft.drafter, span))
    return tuple(runs)
