"""Draft tree: the drafts of one query merged into the prefixes to compute in one forward pass, within a budget."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from chemspec.decode.protocol import LookAhead, LoopOptions
from chemspec.decode.query_state import QueryState, common_prefix_length
from chemspec.draft.base import Drafter, read_drafts
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix


class DraftTree:
    """Drafted prefixes of one query; scored prefixes and those shared between drafts are not computed again."""

    def __init__(self, query: QueryState, drafter: Drafter, options: LoopOptions) -> None:
        """Start an empty tree."""
        self.query, self.drafter, self.options = query, drafter, options
        self.added: dict[Prefix, None] = {}  # to compute in addition to the requested prefixes, parents first
        # Drafted prefix -> the first draft that contains it, and the index of its last token in the draft.
        self.draft_of: dict[Prefix, tuple[Draft, int]] = {}
        self.drafts: dict[Prefix, Sequence[Draft]] = {}  # proposed after a prefix
        # Those that were added in full, as alternatives; a look-ahead follows only the first.
        self.branches: dict[Prefix, Sequence[Draft]] = {}

    def add_drafts(self, prefixes: Iterable[Prefix], most: int) -> None:
        """Add the drafts after each prefix, at most this number of nodes each, until the budget is used.

        With a planner, nodes that cost more than their probability of being accepted are left out.
        """
        planner = self.options.planner
        min_probability = 0.0 if planner is None else planner.cost_ratio
        for prefix in prefixes:
            self.branches[prefix] = self._drafts_after(prefix)
            limit = min(len(self.added) + most, self.options.budget)
            for path, draft, index in self._nodes_after(prefix, min_probability):
                self.draft_of.setdefault(path, (draft, index))
                if path[-1] != EOS and path not in self.query.scores and path not in self.added:
                    if len(self.added) >= limit:
                        break
                    self.added[path] = None

    def _nodes_after(self, prefix: Prefix, min_probability: float = 0.0) -> Iterator[tuple[Prefix, Draft, int]]:
        """Yield the nodes of all drafts after a prefix, each with the draft and the index of the token."""
        for draft in self.drafts[prefix]:
            path, probability = prefix, 1.0
            for index, token in enumerate(draft.tokens[: self.options.max_len - len(prefix)]):
                probability *= draft.chances[index] if draft.chances else 1.0
                if probability < min_probability:
                    break
                path = (*path, token)
                yield path, draft, index
                if token == EOS:  # no scores are needed after it
                    break

    def add_own_drafts(self) -> None:
        """Record drafts whose nodes the decoder requests itself, so that there is nothing to add."""
        for prefix, drafts in (self.query.own_drafts or {}).items():
            self.drafts[prefix] = read_drafts(self.drafter, drafts, self.options.vocab_size)
            for path, draft, index in self._nodes_after(prefix):
                if path[-1] != EOS:
                    self.draft_of.setdefault(path, (draft, index))
        self.branches = self.drafts

    def add_look_ahead(self, lookahead: LookAhead, missing: Sequence[Prefix], most: int) -> None:
        """Add the prefixes of a decoder's look-ahead, at most this number, until the budget is used.

        The missing prefixes, requested and without scores, are computed anyway.
        """
        skip, limit = set(missing), min(most, self.options.budget)
        for prefix in lookahead(self.query.scores, self.guess_next_token):
            if prefix in skip:
                continue
            if len(self.added) >= limit:
                break
            self.added[prefix] = None

    def guess_next_token(self, prefix: Prefix) -> int | None:
        """Return the token after `prefix` in the draft that contains it, or else in the best new draft."""
        draft, index = self.draft_of.get(prefix, (None, 0))
        if draft is None or index + 1 >= len(draft.tokens):
            drafts = self._drafts_after(prefix)
            if not drafts:
                return None
            draft, index = drafts[0], -1
        token = draft.tokens[index + 1]
        self.draft_of.setdefault((*prefix, token), (draft, index + 1))
        return token

    def _drafts_after(self, prefix: Prefix) -> Sequence[Draft]:
        if prefix not in self.drafts:
            if self.options.planner is not None and len(self.drafts) >= self.query.hypothesis_count:
                return ()  # a planned pass calls the drafter at most once per hypothesis
            # A prefix of max_len tokens is complete and needs no scores, so drafts stop one token earlier.
            room = self.options.max_len - len(prefix)
            drafts = self.drafter.propose(self.query.source, prefix, room) if room > 0 else ()
            self.drafts[prefix] = read_drafts(self.drafter, drafts, self.options.vocab_size)
        return self.drafts[prefix]

    def matched_drafts(self, before: Prefix) -> Iterator[tuple[Draft, int]]:
        """Yield the drafts after `before`, the leading prefix, with their numbers of accepted tokens."""
        text = self.query.leading_prefix()
        if text[: len(before)] != before:
            return  # another hypothesis is the best one now
        emitted = text[len(before) :]
        for draft in self.drafts.get(before, ()):
            seen = draft.tokens[: len(emitted)]
            matched = common_prefix_length(seen, emitted)
            if matched == len(seen) < len(draft.tokens):  # the tokens after these were not judged
                draft = replace(draft, tokens=seen)
            if seen:
                yield draft, matched
