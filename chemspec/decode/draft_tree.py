"""Draft tree: the drafts of one query merged into the prefixes to compute in one forward pass, within a budget."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from chemspec.decode.planner import NODES, LookAheadPlan, Planner
from chemspec.decode.protocol import LookAhead
from chemspec.draft.base import Drafter, read_drafts
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.builder import ThroughputStop, TreeLimits
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix, Scores


class DraftTree:
    """Drafted prefixes of one query; scored prefixes and those shared between drafts are not computed again.

    Attributes:
        added: the prefixes to compute in addition to the requested ones, parents first.
        draft_of: drafted prefix -> the first draft that contains it, and the index of its last token in the draft.
        drafts: prefix -> drafts proposed after it.
        plan: plan of the look-ahead, if there is one.
        named: prefixes that the plan considered.
        branches: those of `drafts` that were added in full, as alternatives; a look-ahead follows only the first.
    """

    plan: LookAheadPlan | None

    def __init__(
        self,
        source: Sequence[int],
        scores: Mapping[Prefix, Scores],
        drafter: Drafter,
        max_len: int,
        budget: int,
        vocab_size: int = sys.maxsize,
        planner: Planner | None = None,
    ) -> None:
        """Start an empty tree.

        Args:
            source: the query's token ids.
            scores: the scores known already.
            drafter: proposes the branches.
            max_len: maximum output length in tokens.
            budget: maximum number of prefixes to add.
            vocab_size: drafted token ids must be smaller.
            planner: decides how many prefixes pay off; without one, the whole budget is used.
        """
        self.source, self.scores, self.drafter = source, scores, drafter
        self.max_len, self.budget, self.vocab_size = max_len, budget, vocab_size
        self.added: dict[Prefix, None] = {}
        self.draft_of: dict[Prefix, tuple[Draft, int]] = {}
        self.drafts: dict[Prefix, Sequence[Draft]] = {}
        self.planner, self.plan, self.named = planner, None, frozenset[Prefix]()
        self._limits: TreeLimits | None = None  # set by the planner for trees of `Mixed`
        self.branches: dict[Prefix, Sequence[Draft]] = {}

    def add_drafts(self, prefixes: Iterable[Prefix]) -> None:
        """Add every draft after each of the prefixes, until the budget is used."""
        for prefix in prefixes:
            self.branches[prefix] = self._drafts_after(prefix)
            for draft in self.branches[prefix]:
                path = prefix
                for index, token in enumerate(draft.tokens[: self.max_len - len(prefix)]):
                    path = (*path, token)
                    self.draft_of.setdefault(path, (draft, index))
                    if token == EOS:  # no scores are needed after it
                        break
                    if path not in self.scores and path not in self.added:
                        if len(self.added) >= self.budget:
                            return
                        self.added[path] = None

    def add_own_drafts(self, tried: Mapping[Prefix, Sequence[Draft]]) -> None:
        """Record drafts whose nodes the decoder requests itself, so that there is nothing to add."""
        self.drafts = {prefix: read_drafts(self.drafter, drafts, self.vocab_size) for prefix, drafts in tried.items()}
        self.branches = self.drafts
        for prefix, drafts in self.drafts.items():
            for draft in drafts:
                path = prefix
                for index, token in enumerate(draft.tokens[: self.max_len - len(prefix)]):
                    if token == EOS:
                        break
                    path = (*path, token)
                    self.draft_of.setdefault(path, (draft, index))

    def add_look_ahead(self, lookahead: Iterable[Prefix], missing: Sequence[Prefix]) -> None:
        """Add the prefixes of a decoder's look-ahead, until the budget is used.

        Args:
            lookahead: prefixes without scores, each once, parents first (`ScoreRequest`).
            missing: currently requested prefixes, which are computed anyway.
        """
        skip = set(missing)
        for prefix in lookahead:
            if prefix in skip:
                continue
            if len(self.added) >= self.budget:
                return
            self.added[prefix] = None

    def add_planned_drafts(self, prefixes: Iterable[Prefix], planner: Planner) -> None:
        """Add the nodes of the drafts after each prefix that pay off by the plan."""
        if isinstance(self.drafter, Mixed):  # its trees are planned while they grow
            self._limits = planner.tree_limits(self.drafter.limits)
            self.add_drafts(prefixes)
            return
        for prefix in prefixes:
            chances: dict[Prefix, float] = {}
            self.branches[prefix] = self._drafts_after(prefix)
            for rank, draft in enumerate(self.branches[prefix]):
                path, chance = prefix, 1.0
                for index, token in enumerate(draft.tokens[: self.max_len - len(prefix)]):
                    path = (*path, token)
                    chance = chances.setdefault(path, chance * planner.token_probability(draft, rank, index))
                    self.draft_of.setdefault(path, (draft, index))
                    if token == EOS:
                        break
            new = [path for path in chances if path[-1] != EOS and path not in self.scores and path not in self.added]
            new.sort(key=lambda path: -chances[path])  # parents stay before their children
            stop, most = ThroughputStop(planner.pass_seconds), min(NODES, self.budget - len(self.added))
            for count, path in enumerate(new[:most]):
                if not stop.should_continue(count, chances[path]):
                    break
            self.added.update(dict.fromkeys(new[: stop.best]))

    def add_planned_look_ahead(
        self, lookahead: LookAhead, requested: Sequence[Prefix], planner: Planner, *, starts: bool
    ) -> None:
        """Add the prefixes of a decoder's look-ahead that pay off by the plan.

        Args:
            lookahead: look-ahead of the decoder.
            requested: prefixes that it requests now; those without scores are computed anyway.
            planner: planner of the run.
            starts: whether this is the first pass of a beam, whose only prefix is bos.
        """
        skip = {prefix for prefix in requested if prefix not in self.scores}
        if not planner.look_ahead_pays(len(skip)):
            return
        if isinstance(self.drafter, Mixed):
            self._limits = planner.guess_limits(self.drafter.limits)
        self.plan = plan = LookAheadPlan(planner, max(map(len, requested)), self.budget, starts=starts)
        named: list[Prefix] = []
        for prefix in lookahead(self.scores, self.guess_next_token):
            if prefix in skip:
                continue
            if not plan.add_node(len(prefix)):
                break
            named.append(prefix)
        else:
            plan.close_last_level()
        self.named = frozenset(named)
        self.added.update(dict.fromkeys(named[: plan.best]))

    def guess_next_token(self, prefix: Prefix) -> int | None:
        """Return the token after `prefix` in the draft that contains it, or else in the best new draft."""
        draft, index = self.draft_of.get(prefix, (None, 0))
        if draft is None or index + 1 >= len(draft.tokens):
            drafts = self._drafts_after(prefix)
            if not drafts:
                if self.plan is not None:
                    self.plan.add_guess(0.0)
                return None
            draft, index = drafts[0], -1
        if self.plan is not None and self.planner is not None:
            self.plan.add_guess(self.planner.token_probability(draft, 0, index + 1))
        token = draft.tokens[index + 1]
        self.draft_of.setdefault((*prefix, token), (draft, index + 1))
        return token

    def _drafts_after(self, prefix: Prefix) -> Sequence[Draft]:
        if prefix not in self.drafts:
            # A prefix of max_len tokens is complete and needs no scores, so drafts stop one token earlier.
            room = self.max_len - len(prefix)
            drafts: object = ()
            if room > 0 and self._limits is not None and isinstance(self.drafter, Mixed):
                drafts = self.drafter.drafts_within(self.source, prefix, room, self._limits)
            elif room > 0:
                drafts = self.drafter.propose(self.source, prefix, room)
            self.drafts[prefix] = read_drafts(self.drafter, drafts, self.vocab_size)
        return self.drafts[prefix]
