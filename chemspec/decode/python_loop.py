"""Reference decoding loop in Python; used for decoders and drafters the C++ loop does not support."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from chemspec.decode.draft_tree import DraftTree
from chemspec.decode.planner import Planner
from chemspec.decode.protocol import START, Decoder, DraftLimits, FinishedSearch, ScoreRequest, next_search_of
from chemspec.decode.query_state import QueryState
from chemspec.draft.base import Drafter, Speculation
from chemspec.model.session import Session
from chemspec.types import Draft, FinishedSequence, Pass, Prefix, Scores


class PythonLoop:
    """Decodes a batch of queries, one forward pass at a time."""

    def __init__(
        self,
        session: Session,
        drafter: Drafter,
        limits: DraftLimits,
        *,
        planner: Planner | None = None,
        clock: Callable[[], float],
        record: bool,
    ) -> None:
        """Start without queries; see `decoding.Decoding`."""
        self._joined = 0
        self._queries: dict[int, QueryState] = {}  # until `discard_query`, like the next three
        self._earlier: dict[int, list[FinishedSearch]] = {}
        self._passes: dict[int, list[Pass]] = {}
        self._seconds: dict[int, float] = {}
        self._session, self._drafter = session, drafter
        self._planner = planner if limits.budget else None
        self._max_len, budget, self._vocab_size = limits
        self._budget, self._clock, self._record = budget, clock, record
        self._hooks = drafter if drafter.has_hooks and budget else None

    def add_queries(self, sources: Sequence[Sequence[int]], decoders: Sequence[Decoder]) -> None:
        """Start the decoders of queries that have been added to the session."""
        for source, decoder in zip(sources, decoders, strict=True):
            query = self._queries[self._joined] = QueryState(source, decoder)
            self._passes[self._joined], self._seconds[self._joined], self._earlier[self._joined] = [], 0.0, []
            self._joined += 1
            query.start_search()
        self._release_and_compact()

    def output_sequences(self, query: int) -> list[FinishedSequence]:
        """Return a query's output sequences, best first; an empty list if it is unfinished."""
        return self._queries[query].results or []

    def finished_searches(self, query: int) -> list[FinishedSearch]:
        """Return the searches of a finished query in order."""
        return [*self._earlier[query], self._summarise_search(query)]

    def _summarise_search(self, query: int) -> FinishedSearch:
        state = self._queries[query]
        return FinishedSearch(
            self.output_sequences(query), len(self._passes[query]), self._seconds[query], state.written, state.standard
        )

    def recorded_passes(self, query: int) -> list[Pass]:
        """Return the records of a query's forward passes so far."""
        return self._passes[query]

    def last_pass_end(self, query: int) -> float:
        """Return the clock time after a query's last forward pass."""
        return self._seconds[query]

    def discard_query(self, query: int) -> None:
        """Delete the records of a finished query."""
        del self._queries[query], self._earlier[query], self._passes[query], self._seconds[query]

    def start_pass(self) -> None:
        """Do nothing: `finish_pass` runs the whole forward pass."""

    def finish_pass(self) -> None:
        """Run one forward pass: draft, score, resume the decoders, and record the outcome."""
        began, calls = self._clock(), self._drafter.calls
        numbers = self._session.queries
        active = [self._queries[number] for number in numbers]
        missing = [query.missing_prefixes() for query in active]
        trees = self._build_draft_trees(active, missing)
        drafted = self._clock()
        scored = self._session.score(
            [[*new_prefixes, *tree.added] for new_prefixes, tree in zip(missing, trees, strict=True)]
        )
        done = self._clock()
        events = []
        for number, query, new_prefixes, scores, tree in zip(numbers, active, missing, scored, trees, strict=True):
            before, live = query.leading_prefix(), query.requested
            if query.own_drafts is not None:
                live = tuple(query.own_drafts)
                new_prefixes = [prefix for prefix in new_prefixes if prefix in query.own_drafts]
            query.scores.update(scores)
            emitted, margin = query.resume_decoder(_level_observer(self._planner, tree, query.scores))
            spans = query.accepted_spans(before, emitted, tree.branches)
            grown = query.record_nodes(scores, set(new_prefixes), live) if self._record else None
            for draft, rank, matched in _matched_drafts(tree, before, query.leading_prefix()):
                if self._hooks is not None:
                    self._hooks.observe(draft, matched)
                if self._planner is not None:
                    self._planner.observe_draft(draft, rank, matched)
            event = Pass(
                asked=len(new_prefixes),
                computed=len(scores),
                drafted=len(scores) - len(new_prefixes),
                emitted=emitted,
                accepted=sum(span.length for span in spans),
                margin=margin,
                width=len(active),
                draft_seconds=drafted - began,
                model_seconds=done - drafted,
                spans=spans,
                drafts=tuple(tree.drafts.get(before, ())),
                grown=grown,
                draft_calls=self._drafter.calls - calls,
            )
            events.append((number, event))
        if self._planner is not None:
            counts = [(event.computed, event.emitted) for _, event in events]
            computed, tokens = map(sum, zip(*counts, strict=True))
            self._planner.record_pass(computed, tokens, sum(len(tree.drafts) for tree in trees))
        now = self._clock()
        for number, event in events:
            self._passes[number].append(event)
            self._seconds[number] = now
        self._release_and_compact()

    def run_passes(self) -> None:
        """Run one forward pass; see `decoding.Loop`."""
        self.finish_pass()

    def _build_draft_trees(self, active: Sequence[QueryState], missing: Sequence[Sequence[Prefix]]) -> list[DraftTree]:
        """Build one draft tree per query for the next forward pass."""
        # Greedy decoding has no look-ahead: there LOOKAHEAD means the drafts.
        mode = Speculation.LOOKAHEAD if self._budget else Speculation.OFF
        requested, waiting = sum(map(len, missing)), sum(len(query.requested) for query in active)
        if self._planner is not None:
            width = sum(query.hypothesis_count for query in active)
            if not self._planner.begin_pass(requested, len(active), waiting=waiting, width=width):
                return [self._empty_tree(query) for query in active]
        if self._hooks is not None:
            mode = min(mode, self._hooks.plan_pass(requested, len(active), waiting=waiting))
            self._hooks.prepare(
                [
                    (query.source, prefix, self._max_len - len(prefix))
                    for query, prefixes in zip(active, missing, strict=True)
                    for prefix in prefixes
                    if len(prefix) < self._max_len
                ]
            )
        trees, planner = [], self._planner
        for query, prefixes in zip(active, missing, strict=True):
            tree = self._empty_tree(query)
            lookahead = query.requested.lookahead if isinstance(query.requested, ScoreRequest) else None
            if query.own_drafts is not None:
                tree.add_own_drafts(query.own_drafts)
            elif mode is Speculation.OFF:
                pass
            elif planner is not None and lookahead is not None:
                starts = query.hypothesis_count > 1 and query.requested == (START,)
                tree.add_planned_look_ahead(lookahead, query.requested, planner, starts=starts)
            elif planner is not None:
                if planner.drafts_may_pay:
                    tree.add_planned_drafts(prefixes, planner)
            elif mode is Speculation.LOOKAHEAD and lookahead is not None:
                tree.add_look_ahead(lookahead(query.scores, tree.guess_next_token), prefixes)
            else:
                tree.add_drafts(prefixes)
            query.draft_of.update(tree.draft_of)
            trees.append(tree)
        return trees

    def _empty_tree(self, query: QueryState) -> DraftTree:
        limits = self._max_len, self._budget, self._vocab_size
        return DraftTree(query.source, query.scores, self._drafter, *limits, self._planner)

    def _release_and_compact(self) -> None:
        """Start next searches, release finished queries, and evict nodes that are no longer reachable."""
        session, queries = self._session, self._queries
        session.release([number for number in session.queries if not self._start_next_search(number)])
        session.compact(
            {number: queries[number].requested for number in session.queries if not queries[number].may_continue}
        )

    def _start_next_search(self, number: int) -> bool:
        """Start the next search of a query whose search has finished; returns whether the query is unfinished."""
        query = self._queries[number]
        while query.results is not None:
            next_search = next_search_of(query.decoder)
            following = next_search(query.results) if next_search else None
            if following is None:
                return False
            self._earlier[number].append(self._summarise_search(number))
            query.continue_with(following)
        return True


def _level_observer(
    planner: Planner | None, tree: DraftTree, scored: Mapping[Prefix, Scores]
) -> Callable[[Sequence[Prefix]], None]:
    """Return a callback that reports to the planner which levels of the look-ahead were complete."""
    kinds = dict(tree.plan.kinds) if tree.plan is not None else {}

    def judge(requested: Sequence[Prefix]) -> None:
        kind = kinds.get(max(map(len, requested)))
        if kind is not None and planner is not None:
            complete = all(prefix in scored or prefix in tree.named for prefix in requested)
            planner.by_level.add_outcome(kind, complete)
            if not complete:
                kinds.clear()  # later levels were not observed

    return judge


def _matched_drafts(tree: DraftTree, before: Prefix, text: Prefix) -> Iterator[tuple[Draft, int, int]]:
    """Yield the drafts after the leading prefix, each with its rank and the number of its accepted tokens."""
    if text[: len(before)] != before:
        return  # another hypothesis is the best one now
    emitted = text[len(before) :]
    for rank, draft in enumerate(tree.drafts.get(before, ())):
        seen = draft.tokens[: len(emitted)]
        matched = 0
        while matched < len(seen) and emitted[matched] == seen[matched]:
            matched += 1
        if matched == len(seen) < len(draft.tokens):  # the tokens after these were not judged
            draft = replace(draft, tokens=seen)
        if seen:
            yield draft, rank, matched
