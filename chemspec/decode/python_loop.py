"""Reference decoding loop in Python; used for decoders and drafters the C++ loop does not support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chemspec.decode.protocol import Decoder, FinishedSearch, LoopOptions, check_prefixes, may_request_again
from chemspec.decode.query_state import DraftTree, QueryState
from chemspec.draft.base import Drafter
from chemspec.model.session import Session
from chemspec.types import Pass, Prefix, Scores


class _PassShared(NamedTuple):
    """What the records of one forward pass have in common, see `Pass`."""

    width: int
    draft_seconds: float
    model_seconds: float
    draft_calls: int


class PythonLoop:
    """Decodes a batch of queries, one forward pass at a time."""

    def __init__(self, session: Session, drafter: Drafter, options: LoopOptions) -> None:
        """Start without queries; see `decoding.Decoding`."""
        self._session, self._drafter, self._options = session, drafter, options
        self._queries: dict[int, QueryState] = {}  # states kept until `take_searches`
        self._hooks = drafter if drafter.has_hooks and options.budget else None

    def add_queries(
        self, numbers: Sequence[int], sources: Sequence[Sequence[int]], decoders: Sequence[Decoder]
    ) -> None:
        """Start the decoders of queries that have been added to the session with these numbers."""
        for number, source, decoder in zip(numbers, sources, decoders, strict=True):
            query = self._queries[number] = QueryState(source, decoder)
            calls = self._drafter.calls
            query.start_search()
            query.draft_calls = self._drafter.calls - calls
        self._release_and_compact()

    def take_searches(self, query: int) -> list[FinishedSearch]:
        """Return the searches of a finished query in order and delete its records."""
        state = self._queries.pop(query)
        return [*state.earlier, state.finished_search()]

    def recorded_passes(self, query: int) -> list[Pass]:
        """Return the records of a query's forward passes so far."""
        return self._queries[query].passes

    def run_pass(self) -> None:
        """Run one forward pass: draft, score, resume the decoders, and record the outcome."""
        clock, planner = self._options.clock, self._options.planner
        began, calls = clock(), self._drafter.calls
        active = [self._queries[number] for number in self._session.queries]
        missing = [[prefix for prefix in query.requested if prefix not in query.scores] for query in active]
        trees = self._build_draft_trees(active, missing)
        waiting = sum(len(query.requested) for query in active)
        requested, advanced = sum(len(query.ever_requested) for query in active), sum(q.advanced for q in active)
        drafted, shared_calls = clock(), self._drafter.calls - calls
        nodes = [[*new_prefixes, *tree.added] for new_prefixes, tree in zip(missing, trees, strict=True)]
        for query, prefixes in zip(active, nodes, strict=True):
            check_prefixes(query.decoder, prefixes, self._options)
        scored = self._session.score(nodes)
        done = clock()
        shared = _PassShared(len(active), drafted - began, done - drafted, shared_calls)
        events = [self._resume_query(shared, *each) for each in zip(active, missing, scored, trees, strict=True)]
        now = clock()
        for query, event in zip(active, events, strict=True):
            query.passes.append(event)
            query.seconds = now
        if planner is not None:
            planner.record_pass(
                computed=sum(event.computed for event in events),
                needed=sum(len(query.ever_requested) for query in active) - requested,
                proposed=sum(len(tree.drafts) for tree in trees),
                tokens=sum(query.advanced for query in active) - advanced,
                waiting=waiting,
                seconds=now - drafted,
                planning_seconds=drafted - began,
            )
        self._release_and_compact()

    run_passes = run_pass  # see `CompiledLoop.run_passes`

    def _resume_query(
        self,
        shared: _PassShared,
        query: QueryState,
        new_prefixes: Sequence[Prefix],
        scores: Mapping[Prefix, Scores],
        tree: DraftTree,
    ) -> Pass:
        """Store the scores of a query's nodes and resume its decoder; returns the record of the pass."""
        before, live, calls, own_calls = query.leading_prefix(), query.requested, self._drafter.calls, query.draft_calls
        if query.own_drafts is not None:
            live = tuple(query.own_drafts)
            new_prefixes = [prefix for prefix in new_prefixes if prefix in query.own_drafts]
        query.scores.update(scores)
        emitted, margin = query.resume_decoder()
        query.draft_calls = self._drafter.calls - calls
        spans = query.accepted_spans(before, emitted, tree.branches)
        grown = query.record_nodes(scores, set(new_prefixes), live) if self._options.record else None
        if self._hooks is not None:
            for draft, matched in tree.matched_drafts(before):
                self._hooks.observe(draft, matched)
        if self._options.planner is not None:
            query.observe_drafts(self._options.planner.acceptance)
        return Pass(
            requested=len(new_prefixes),
            computed=len(scores),
            drafted=len(scores) - len(new_prefixes),
            emitted=emitted,
            accepted=sum(span.length for span in spans),
            margin=margin,
            width=shared.width,
            draft_seconds=shared.draft_seconds,
            model_seconds=shared.model_seconds,
            spans=spans,
            drafts=tuple(tree.drafts.get(before, ())),
            grown=grown,
            draft_calls=shared.draft_calls + own_calls,
        )

    def _build_draft_trees(self, active: Sequence[QueryState], missing: Sequence[Sequence[Prefix]]) -> list[DraftTree]:
        """Build one draft tree per query for the next forward pass."""
        trees = [DraftTree(query, self._drafter, self._options) for query in active]
        budget, planner, new = self._options.budget, self._options.planner, sum(map(len, missing))
        if planner is not None:
            hypotheses = sum(query.hypothesis_count for query in active)
            if not planner.begin_pass(new, len(active), hypotheses, budget=budget):
                return trees
        if self._hooks is not None:
            waiting = sum(len(query.requested) for query in active)
            if not self._hooks.plan_pass(new, len(active), waiting=waiting):
                budget = 0
            max_len = self._options.max_len
            self._hooks.prepare(
                [
                    (query.source, prefix, max_len - len(prefix))
                    for query, prefixes in zip(active, missing, strict=True)
                    for prefix in prefixes
                    if len(prefix) < max_len
                ]
            )
        for query, prefixes, tree in zip(active, missing, trees, strict=True):
            lookahead = getattr(query.requested, "lookahead", None)
            if query.own_drafts is not None:
                tree.add_own_drafts()
            elif budget and lookahead is not None:
                tree.add_look_ahead(lookahead, prefixes)
            elif budget:
                tree.add_drafts(prefixes)
            query.draft_of.update(tree.draft_of)
        return trees

    def _release_and_compact(self) -> None:
        """Start next searches, release finished queries, and evict nodes that are no longer reachable."""
        session, queries = self._session, self._queries
        finished = [number for number in session.queries if not queries[number].start_next_search()]
        session.release(finished)
        if finished and self._options.planner is not None:
            self._options.planner.store_history()
        last = [number for number in session.queries if not may_request_again(queries[number].decoder)]
        session.compact({number: queries[number].requested for number in last})
