"""Run decoders: merge what all queries request, add drafts, run the model once, resume the decoders; and again.

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
from dataclasses import replace

from chemspec.decode.draft_tree import DraftTree
from chemspec.decode.protocol import Decoder, ScoreRequest
from chemspec.decode.query_state import QueryState
from chemspec.draft.base import AdaptiveDrafter, BatchedDrafter, CountingDrafter, Drafter, Speculation
from chemspec.model.session import Session
from chemspec.types import FinishedSequence, Pass, Prefix

Clock = Callable[[], float]
Event = tuple[int, Pass]  # which query, and what one model call did for it


class Decoding:
    """Queries being decoded: iterate over it, one item a model call, then call `run_to_end` for the answers.

    Attributes:
        passes: of every query, what each model call so far did for it.
        seconds: of every query, the clock's reading after its last pass.
    """

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
            vocab_size: of the model; iterating raises ValueError if a draft holds an id beyond it.
        """
        self.passes: list[list[Pass]] = [[] for _ in sources]
        self.seconds = [0.0] * len(sources)
        self._queries = [QueryState(source, decoder) for source, decoder in zip(sources, decoders, strict=True)]
        self._session, self._drafter = session, drafter
        self._max_len, self._budget, self._clock, self._record = max_len, budget, clock, record
        self._vocab_size = vocab_size
        self._adaptive = drafter if isinstance(drafter, AdaptiveDrafter) and budget else None
        self._batched = drafter if isinstance(drafter, BatchedDrafter) and budget else None
        self._counting = drafter if isinstance(drafter, CountingDrafter) else None
        for query in self._queries:
            query.start()
        self._forget_finished()

    def __iter__(self) -> Iterator[list[Event]]:
        """Run pass after pass; yields after each what it did for every query that took part."""
        while self._session.queries:
            yield self._pass()

    def run_to_end(self) -> list[list[FinishedSequence]]:
        """Run the passes that are left, and return what every decoder returned, answers best first."""
        for _ in self:
            pass
        return [query.results or [] for query in self._queries]

    def _pass(self) -> list[Event]:
        """Draft, score, resume the decoders, and take down what came of it."""
        began, calls = self._clock(), self._draft_calls()
        numbers = self._session.queries
        active = [self._queries[number] for number in numbers]
        missing = [query.missing() for query in active]
        trees = self._draft(active, missing)
        drafted = self._clock()
        scored = self._session.score([[*asked, *tree.added] for asked, tree in zip(missing, trees, strict=True)])
        done = self._clock()
        events = []
        for number, query, asked, scores, tree in zip(numbers, active, missing, scored, trees, strict=True):
            before = query.leading()
            query.scores.update(scores)
            grown = query.record(scores, set(asked)) if self._record else None
            emitted, margin = query.resume()
            spans = query.accepted(before, emitted)
            if self._adaptive is not None:
                _observe(self._adaptive, tree, before, query.leading())
            event = Pass(
                asked=len(asked),
                computed=len(scores),
                drafted=len(scores) - len(asked),
                emitted=emitted,
                accepted=sum(span.length for span in spans),
                margin=margin,
                width=len(active),
                draft_seconds=drafted - began,
                model_seconds=done - drafted,
                spans=spans,
                drafts=tuple(tree.drafts.get(before, ())),
                grown=grown,
                draft_calls=self._draft_calls() - calls,
            )
            events.append((number, event))
        self._forget_finished()
        now = self._clock()
        for number, event in events:
            self.passes[number].append(event)
            self.seconds[number] = now
        return events

    def _draft(self, active: Sequence[QueryState], missing: Sequence[Sequence[Prefix]]) -> list[DraftTree]:
        """Return for every query the prefixes to score ahead in this pass, as far as they pay."""
        pays = Speculation.LOOKAHEAD if self._budget else Speculation.OFF
        if self._adaptive is not None:
            waiting = sum(len(query.requested) for query in active)
            pays = self._adaptive.plan_pass(sum(map(len, missing)), len(active), waiting=waiting)
        if self._batched is not None:
            self._batched.prepare(
                [
                    (query.source, prefix, self._max_len - len(prefix))
                    for query, prefixes in zip(active, missing, strict=True)
                    for prefix in prefixes
                    if len(prefix) < self._max_len
                ]
            )
        trees = []
        for query, prefixes in zip(active, missing, strict=True):
            tree = DraftTree(query.source, query.scores, self._drafter, self._max_len, self._budget, self._vocab_size)
            lookahead = query.requested.lookahead if isinstance(query.requested, ScoreRequest) else None
            if pays is Speculation.LOOKAHEAD and lookahead is not None:
                tree.follow(lookahead(query.scores, tree.guess), prefixes)
            elif pays is not Speculation.OFF:
                tree.extend(prefixes)
            query.draft_of.update(tree.draft_of)
            trees.append(tree)
        return trees

    def _forget_finished(self) -> None:
        session = self._session
        session.release(number for number in list(session.queries) if self._queries[number].results is not None)
        session.compact({number: self._queries[number].requested for number in session.queries})

    def _draft_calls(self) -> int:
        return self._counting.calls if self._counting else 0


def _observe(drafter: AdaptiveDrafter, tree: DraftTree, before: Prefix, text: Prefix) -> None:
    """Tell the drafter how its drafts after the leading prefix fared."""
    if text[: len(before)] != before:
        return  # another hypothesis has taken the lead
    emitted = text[len(before) :]
    for draft in tree.drafts.get(before, ()):
        seen = draft.tokens[: len(emitted)]
        matched = 0
        while matched < len(seen) and emitted[matched] == seen[matched]:
            matched += 1
        if matched == len(seen) < len(draft.tokens):  # of the next, nothing is known
            draft = replace(draft, tokens=seen)
        if seen:
            drafter.observe(draft, matched)
