"""Merge the drafts of one query in one pass into a tree of prefixes to compute, within a budget."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from chemspec.draft.base import Drafter
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix, Scores


class DraftTree:
    """Drafted prefixes; those already scored, shared between drafts or beyond the limit cost nothing.

    Attributes:
        added: the prefixes to compute besides those requested, parents first.
        draft_of: drafted prefix -> the first draft that leads to it, and the index of its last token in it.
        drafts: prefix -> what was proposed after it.
        branches: those of `drafts` that were added whole, side by side; a look-ahead follows only the first.
    """

    def __init__(
        self,
        source: Sequence[int],
        scores: Mapping[Prefix, Scores],
        drafter: Drafter,
        max_len: int,
        budget: int,
        vocab_size: int = sys.maxsize,
    ) -> None:
        """Start an empty tree.

        Args:
            source: the query's token ids.
            scores: what is known already.
            drafter: proposes the branches.
            max_len: most tokens of an answer.
            budget: most prefixes to add.
            vocab_size: a drafted token id must be below it.
        """
        self.source, self.scores, self.drafter = source, scores, drafter
        self.max_len, self.budget, self.vocab_size = max_len, budget, vocab_size
        self.added: dict[Prefix, None] = {}
        self.draft_of: dict[Prefix, tuple[Draft, int]] = {}
        self.drafts: dict[Prefix, Sequence[Draft]] = {}
        self.branches: dict[Prefix, Sequence[Draft]] = {}

    def extend(self, prefixes: Iterable[Prefix]) -> None:
        """Add every draft after each of the prefixes, as far as the budget goes."""
        for prefix in prefixes:
            self.branches[prefix] = self._propose(prefix)
            for draft in self.branches[prefix]:
                path = prefix
                for index, token in enumerate(draft.tokens[: self.max_len - len(prefix)]):
                    path = (*path, token)
                    self.draft_of.setdefault(path, (draft, index))
                    if token == EOS:  # nothing is asked after it
                        break
                    if path not in self.scores and path not in self.added:
                        if len(self.added) >= self.budget:
                            return
                        self.added[path] = None

    def follow(self, lookahead: Iterable[Prefix], missing: Sequence[Prefix]) -> None:
        """Add what a decoder says it would request next, as far as the budget goes.

        Args:
            lookahead: prefixes without scores, each once, parents first (`ScoreRequest`).
            missing: those requested now, which are computed anyway.
        """
        skip = set(missing)
        for prefix in lookahead:
            if prefix in skip:
                continue
            if len(self.added) >= self.budget:
                return
            self.added[prefix] = None

    def guess(self, prefix: Prefix) -> int | None:
        """Return the token after `prefix` in the draft that led to it, or else in the best new draft."""
        draft, index = self.draft_of.get(prefix, (None, 0))
        if draft is None or index + 1 >= len(draft.tokens):
            drafts = self._propose(prefix)
            if not drafts:
                return None
            draft, index = drafts[0], -1
        token = draft.tokens[index + 1]
        self.draft_of.setdefault((*prefix, token), (draft, index + 1))
        return token

    def _propose(self, prefix: Prefix) -> Sequence[Draft]:
        if prefix not in self.drafts:
            # The prefix of max_len tokens is an answer, not a question, hence no draft needs to reach it.
            room = self.max_len - len(prefix)
            drafts = self.drafter.propose(self.source, prefix, room) if room > 0 else ()
            self.drafts[prefix] = [draft for draft in drafts if draft.tokens]
            for draft in self.drafts[prefix]:
                check_tokens(draft, self.vocab_size)
        return self.drafts[prefix]


def check_tokens(draft: Draft, vocab_size: int) -> None:
    """Refuse a draft with a token that no model can read.

    Raises:
        ValueError: naming the drafter and the token.
    """
    if min(draft.tokens) < 0 or max(draft.tokens) >= vocab_size:
        refuse(draft.drafter, next(token for token in draft.tokens if not 0 <= token < vocab_size), vocab_size)


def refuse(drafter: str, token: int, vocab_size: int) -> NoReturn:
    """Raise the ValueError of `check_tokens`."""
    raise ValueError(f"the drafter {drafter!r} proposed the token id {token}; the vocabulary has {vocab_size} tokens")
