"""The loop in Python: the specification of the compiled one, and what runs whatever that does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from chemspec.decode.draft_tree import DraftTree
from chemspec.decode.planner import Planner
from chemspec.decode.protocol import START, Decoder, Limits, ScoreRequest, Search, next_search_of
from chemspec.decode.query_state import QueryState
from chemspec.draft.base import AdaptiveDrafter, BatchedDrafter, CountingDrafter, Drafter, Speculation
from chemspec.model.session import Session
from chemspec.types import Draft, FinishedSequence, Pass, Prefix, Scores


class PythonLoop:
    """Queries being decoded, a model call at a time."""

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        decoders: Sequence[Decoder],
        session: Session,
        drafter: Drafter,
        limits: Limits,
        *,
        planner: Planner | None = None,
        clock: Callable[[], float],
        record: bool,
    ) -> None:
        """Start the decoders; see `decoding.Decoding`."""
        self._joined = 0
        self._queries: dict[int, QueryState] = {}  # those not forgotten, like the next three
        self._earlier: dict[int, list[Search]] = {}
        self._passes: dict[int, list[Pass]] = {}
        self._seconds: dict[int, float] = {}
        self._session, self._drafter = session, drafter
        self._planner = planner if limits.budget else None
        self._max_len, budget, self._vocab_size = limits
        self._budget, self._clock, self._record = budget, clock, record
        self._adaptive = drafter if isinstance(drafter, AdaptiveDrafter) and budget else None
        self._batched = drafter if isinstance(drafter, BatchedDrafter) and budget else None
        self._counting = drafter if isinstance(drafter, CountingDrafter) else None
        self.join(sources, decoders)

    def join(self, sources: Sequence[Sequence[int]], decoders: Sequence[Decoder]) -> None:
        """Take on queries, which the session has taken on before."""
        for source, decoder in zip(sources, decoders, strict=True):
            query = self._queries[self._joined] = QueryState(source, decoder)
            self._passes[self._joined], self._seconds[self._joined], self._earlier[self._joined] = [], 0.0, []
            self._joined += 1
            query.start()
        self._release_and_compact()

    def answers(self, query: int) -> list[FinishedSequence]:
        """Return what a decoder returned, answers best first; an empty list if it is not done."""
        return self._queries[query].results or []

    def searches(self, query: int) -> list[Search]:
        """Return the searches of a finished query, one after the other."""
        return [*self._earlier[query], self._search(query)]

    def _search(self, query: int) -> Search:
        state = self._queries[query]
        return Search(
            self.answers(query), len(self._passes[query]), self._seconds[query], state.written, state.standard
        )

    def passes(self, query: int) -> list[Pass]:
        """Return what each model call so far did for a query."""
        return self._passes[query]

    def seconds(self, query: int) -> float:
        """Return the clock's reading after a query's last pass."""
        return self._seconds[query]

    def forget(self, query: int) -> None:
        """Free what is known of a finished query."""
        del self._queries[query], self._earlier[query], self._passes[query], self._seconds[query]

    def start_pass(self) -> None:
        """Do nothing: `finish_pass` does the whole pass."""

    def finish_pass(self) -> None:
        """Do a whole pass: draft, score, resume the decoders, and take down what came of it."""
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
            before, live = query.leading(), query.requested
            if query.tried is not None:
                live = tuple(query.tried)
                asked = [prefix for prefix in asked if prefix in query.tried]
            query.scores.update(scores)
            emitted, margin = query.resume(_judge(self._planner, tree, query.scores))
            spans = query.accepted(before, emitted, tree.branches)
            grown = query.record(scores, set(asked), live) if self._record else None
            for draft, rank, matched in _fates(tree, before, query.leading()):
                if self._adaptive is not None:
                    self._adaptive.observe(draft, matched)
                if self._planner is not None:
                    self._planner.observe(draft, rank, matched)
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
        if self._planner is not None:
            counts = [(event.computed, event.emitted) for _, event in events]
            computed, tokens = map(sum, zip(*counts, strict=True))
            self._planner.end_pass(computed, tokens, sum(len(tree.drafts) for tree in trees))
        now = self._clock()
        for number, event in events:
            self._passes[number].append(event)
            self._seconds[number] = now
        self._release_and_compact()

    def run_passes(self) -> None:
        """Do a whole pass; see `decoding.Loop`."""
        self.finish_pass()

    def _draft(self, active: Sequence[QueryState], missing: Sequence[Sequence[Prefix]]) -> list[DraftTree]:
        """Return for every query the prefixes to score ahead in this pass, as far as they pay."""
        # All that there is; greedy decoding has no look-ahead, and drafts only.
        pays = Speculation.LOOKAHEAD if self._budget else Speculation.OFF
        asked, waiting = sum(map(len, missing)), sum(len(query.requested) for query in active)
        if self._planner is not None:
            width = sum(query.width for query in active)
            if not self._planner.begin_pass(asked, len(active), waiting=waiting, width=width):
                return [self._tree(query) for query in active]
        if self._adaptive is not None:
            pays = min(pays, self._adaptive.plan_pass(asked, len(active), waiting=waiting))
        if self._batched is not None:
            self._batched.prepare(
                [
                    (query.source, prefix, self._max_len - len(prefix))
                    for query, prefixes in zip(active, missing, strict=True)
                    for prefix in prefixes
                    if len(prefix) < self._max_len
                ]
            )
        trees, planner = [], self._planner
        for query, prefixes in zip(active, missing, strict=True):
            tree = self._tree(query)
            lookahead = query.requested.lookahead if isinstance(query.requested, ScoreRequest) else None
            if query.tried is not None:
                tree.note(query.tried)
            elif pays is Speculation.OFF:
                pass
            elif planner is not None and lookahead is not None:
                starts = query.width > 1 and query.requested == (START,)
                tree.follow_as_planned(lookahead, query.requested, planner, starts=starts)
            elif planner is not None:
                if planner.drafts_may_pay:
                    tree.extend_as_planned(prefixes, planner)
            elif pays is Speculation.LOOKAHEAD and lookahead is not None:
                tree.follow(lookahead(query.scores, tree.guess), prefixes)
            else:
                tree.extend(prefixes)
            query.draft_of.update(tree.draft_of)
            trees.append(tree)
        return trees

    def _tree(self, query: QueryState) -> DraftTree:
        limits = self._max_len, self._budget, self._vocab_size
        return DraftTree(query.source, query.scores, self._drafter, *limits, self._planner)

    def _release_and_compact(self) -> None:
        """Let queries go on to their next searches or leave, and clear away nodes that nobody asks about any more."""
        session, queries = self._session, self._queries
        session.release([number for number in session.queries if not self._goes_on(number)])
        session.compact(
            {number: queries[number].requested for number in session.queries if not queries[number].may_go_on}
        )

    def _goes_on(self, number: int) -> bool:
        """Start the next search of a query whose search has ended, if there is one; whether any is under way."""
        query = self._queries[number]
        while query.results is not None:
            next_search = next_search_of(query.decoder)
            following = next_search(query.results) if next_search else None
            if following is None:
                return False
            self._earlier[number].append(self._search(number))
            query.go_on(following)
        return True

    def _draft_calls(self) -> int:
        return self._counting.calls if self._counting else 0


def _judge(
    planner: Planner | None, tree: DraftTree, known: Mapping[Prefix, Scores]
) -> Callable[[Sequence[Prefix]], None]:
    """Return what tells the planner which levels of the look-ahead were complete, as far as that can be told."""
    kinds = dict(tree.plan.kinds) if tree.plan is not None else {}

    def judge(requested: Sequence[Prefix]) -> None:
        kind = kinds.get(max(map(len, requested)))
        if kind is not None and planner is not None:
            complete = all(prefix in known or prefix in tree.named for prefix in requested)
            planner.by_level.add(kind, complete)
            if not complete:
                kinds.clear()  # what would have come after it is not known

    return judge


def _fates(tree: DraftTree, before: Prefix, text: Prefix) -> Iterator[tuple[Draft, int, int]]:
    """Yield the drafts after the leading prefix, the number of each, and how many of its tokens were right."""
    if text[: len(before)] != before:
        return  # another hypothesis has taken the lead
    emitted = text[len(before) :]
    for rank, draft in enumerate(tree.drafts.get(before, ())):
        seen = draft.tokens[: len(emitted)]
        matched = 0
        while matched < len(seen) and emitted[matched] == seen[matched]:
            matched += 1
        if matched == len(seen) < len(draft.tokens):  # of the next, nothing is known
            draft = replace(draft, tokens=seen)
        if seen:
            yield draft, rank, matched
