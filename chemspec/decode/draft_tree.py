"""Draft tree: the drafts of one query merged into the prefixes to compute in one forward pass, within a budget."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from chemspec.decode.draft_planner import MAX_NODES, DraftPlanner, LookAheadPlan
from chemspec.decode.protocol import START, LookAhead, LoopOptions
from chemspec.decode.query_state import QueryState, common_prefix_length
from chemspec.draft.base import Drafter, read_drafts
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.builder import ThroughputStop, TreeLimits
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix


class DraftTree:
    """Drafted prefixes of one query; scored prefixes and those shared between drafts are not computed again."""

    def __init__(self, query: QueryState, drafter: Drafter, options: LoopOptions) -> None:
        """Start an empty tree, to which a planner adds what pays off; without one, the budget is used."""
        self.query, self.drafter, self.options = query, drafter, options
        self.added: dict[Prefix, None] = {}  # to compute in addition to the requested prefixes, parents first
        # Drafted prefix -> the first draft that contains it, and the index of its last token in the draft.
        self.draft_of: dict[Prefix, tuple[Draft, int]] = {}
        self.drafts: dict[Prefix, Sequence[Draft]] = {}  # proposed after a prefix
        # Those that were added in full, as alternatives; a look-ahead follows only the first.
        self.branches: dict[Prefix, Sequence[Draft]] = {}
        self._limits: TreeLimits | None = None  # set by the planner for trees of `Mixed`
        self._plan: LookAheadPlan | None = None
        self._considered = frozenset[Prefix]()  # prefixes that the plan considered

    def add_drafts(self, prefixes: Iterable[Prefix]) -> None:
        """Add the drafts after each prefix: those that pay off by the plan, or all until the budget is used."""
        planner = self.options.planner
        if planner is not None and not planner.drafts_may_pay:
            return
        if planner is not None and isinstance(self.drafter, Mixed):  # its trees are planned while they grow
            self._limits, planner = planner.tree_limits(self.drafter.limits), None
        for prefix in prefixes:
            self.branches[prefix] = self._drafts_after(prefix)
            if planner is not None:
                self._add_planned(prefix, planner)
                continue
            for path, draft, _, index in self._nodes_after(prefix):
                self.draft_of.setdefault(path, (draft, index))
                if self._is_new(path):
                    if len(self.added) >= self.options.budget:
                        return
                    self.added[path] = None

    def _add_planned(self, prefix: Prefix, planner: DraftPlanner) -> None:
        """Add the nodes of the drafts after a prefix that pay off."""
        probability_of: dict[Prefix, float] = {prefix: 1.0}
        for path, draft, rank, index in self._nodes_after(prefix):
            if path not in probability_of:
                probability_of[path] = probability_of[path[:-1]] * planner.token_probability(draft, rank, index)
            self.draft_of.setdefault(path, (draft, index))
        del probability_of[prefix]
        # Parents stay before their children.
        new = sorted(filter(self._is_new, probability_of), key=lambda path: -probability_of[path])
        stop, most = ThroughputStop(planner.pass_seconds), min(MAX_NODES, self.options.budget - len(self.added))
        for count, path in enumerate(new[:most]):
            if not stop.should_continue(count, probability_of[path]):
                break
        self.added.update(dict.fromkeys(new[: stop.best]))

    def _nodes_after(self, prefix: Prefix) -> Iterator[tuple[Prefix, Draft, int, int]]:
        """Yield the nodes of all drafts after a prefix, each with the draft, its rank and the index of the token."""
        for rank, draft in enumerate(self.drafts[prefix]):
            path = prefix
            for index, token in enumerate(draft.tokens[: self.options.max_len - len(prefix)]):
                path = (*path, token)
                yield path, draft, rank, index
                if token == EOS:  # no scores are needed after it
                    break

    def _is_new(self, path: Prefix) -> bool:
        return path[-1] != EOS and path not in self.query.scores and path not in self.added

    def add_own_drafts(self) -> None:
        """Record drafts whose nodes the decoder requests itself, so that there is nothing to add."""
        for prefix, drafts in (self.query.own_drafts or {}).items():
            self.drafts[prefix] = read_drafts(self.drafter, drafts, self.options.vocab_size)
            for path, draft, _, index in self._nodes_after(prefix):
                if path[-1] != EOS:
                    self.draft_of.setdefault(path, (draft, index))
        self.branches = self.drafts

    def add_look_ahead(self, lookahead: LookAhead, missing: Sequence[Prefix]) -> None:
        """Add the prefixes of a decoder's look-ahead: those that pay off by the plan, or all until the budget is used.

        The missing prefixes, requested and without scores, are computed anyway.
        """
        planner, query, budget = self.options.planner, self.query, self.options.budget
        if planner is not None:
            if not planner.look_ahead_pays(len(missing)):
                return
            if isinstance(self.drafter, Mixed):
                self._limits = planner.guess_limits(self.drafter.limits)
            first_pass = query.hypothesis_count > 1 and query.requested == (START,)
            self._plan = LookAheadPlan(planner, max(map(len, query.requested)), budget, first_pass=first_pass)
        skip, plan, nodes = set(missing), self._plan, list[Prefix]()
        for prefix in lookahead(query.scores, self.guess_next_token):
            if prefix in skip:
                continue
            has_room = len(nodes) < budget if plan is None else plan.add_node(len(prefix))
            if not has_room:
                break
            nodes.append(prefix)
        else:
            if plan is not None:
                plan.close_last_level()
        self._considered = frozenset(nodes)
        self.added.update(dict.fromkeys(nodes if plan is None else nodes[: plan.best]))

    def guess_next_token(self, prefix: Prefix) -> int | None:
        """Return the token after `prefix` in the draft that contains it, or else in the best new draft."""
        draft, index = self.draft_of.get(prefix, (None, 0))
        if draft is None or index + 1 >= len(draft.tokens):
            drafts = self._drafts_after(prefix)
            if not drafts:
                if self._plan is not None:
                    self._plan.add_guess(0.0)
                return None
            draft, index = drafts[0], -1
        if self._plan is not None and self.options.planner is not None:
            self._plan.add_guess(self.options.planner.token_probability(draft, 0, index + 1))
        token = draft.tokens[index + 1]
        self.draft_of.setdefault((*prefix, token), (draft, index + 1))
        return token

    def _drafts_after(self, prefix: Prefix) -> Sequence[Draft]:
        if prefix not in self.drafts:
            # A prefix of max_len tokens is complete and needs no scores, so drafts stop one token earlier.
            room = self.options.max_len - len(prefix)
            drafts: Sequence[Draft] = ()
            if room > 0 and self._limits is not None and isinstance(self.drafter, Mixed):
                drafts = self.drafter.drafts_within(self.query.source, prefix, room, self._limits)
            elif room > 0:
                drafts = self.drafter.propose(self.query.source, prefix, room)
            self.drafts[prefix] = read_drafts(self.drafter, drafts, self.options.vocab_size)
        return self.drafts[prefix]

    def record_level(self, requested: Sequence[Prefix]) -> None:
        """Record for the planner whether a level of the look-ahead that is requested now was complete."""
        kind = None if self._plan is None else self._plan.level_classes.get(max(map(len, requested)))
        if kind is None or self._plan is None or self.options.planner is None:
            return
        complete = all(prefix in self.query.scores or prefix in self._considered for prefix in requested)
        self.options.planner.level_completion.add_outcome(kind, complete)
        if not complete:
            self._plan.level_classes.clear()  # later levels were not observed

    def matched_drafts(self, before: Prefix) -> Iterator[tuple[Draft, int, int]]:
        """Yield the drafts after `before`, the leading prefix, with their ranks and numbers of accepted tokens."""
        text = self.query.leading_prefix()
        if text[: len(before)] != before:
            return  # another hypothesis is the best one now
        emitted = text[len(before) :]
        for rank, draft in enumerate(self.drafts.get(before, ())):
            seen = draft.tokens[: len(emitted)]
            matched = common_prefix_length(seen, emitted)
            if matched == len(seen) < len(draft.tokens):  # the tokens after these were not judged
                draft = replace(draft, tokens=seen)
            if seen:
                yield draft, rank, matched
