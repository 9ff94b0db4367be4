"""Which prefixes to compute before they are asked for: the drafts of one query in one pass, as one tree within a
budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from chemspec.draft.base import Drafter
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix, Scores


class DraftTree:
    """Collects drafted prefixes; those already scored, shared between drafts or beyond the limit cost nothing.

    Attributes:
        added: the prefixes to compute besides those asked, parents first.
        origin: drafted prefix -> the draft it comes from, and its place in it.
        drafts: prefix -> what was proposed after it.
    """

    def __init__(
        self, source: Sequence[int], known: Mapping[Prefix, Scores], drafter: Drafter, max_len: int, budget: int
    ) -> None:
        self.source, self.known, self.drafter = source, known, drafter
        self.max_len, self.budget = max_len, budget
        self.added: dict[Prefix, None] = {}
        self.origin: dict[Prefix, tuple[Draft, int]] = {}
        self.drafts: dict[Prefix, Sequence[Draft]] = {}

    def extend(self, prefixes: Iterable[Prefix]) -> None:
        """Add every draft after each of the prefixes, as far as the budget goes."""
        for prefix in prefixes:
            for draft in self._propose(prefix):
                grown = prefix
                for place, token in enumerate(draft.tokens[: self.max_len - len(prefix)]):
                    grown = (*grown, token)
                    self.origin.setdefault(grown, (draft, place))
                    if token == EOS:  # nothing is asked after it
                        break
                    if grown not in self.known and grown not in self.added:
                        if len(self.added) >= self.budget:
                            return
                        self.added[grown] = None

    def follow(self, wanted: Iterable[Prefix], asked: Sequence[Prefix]) -> None:
        """Add what a decoder says it would ask next, as far as the budget goes."""
        skip = set(asked)
        for prefix in wanted:
            if prefix in skip:
                continue
            if len(self.added) >= self.budget:
                return
            self.added[prefix] = None

    def guess(self, prefix: Prefix) -> int | None:
        """The token that comes after `prefix` in the draft that led to it, or else in the best new draft."""
        draft, place = self.origin.get(prefix, (None, 0))
        if draft is None or place + 1 >= len(draft.tokens):
            drafts = self._propose(prefix)
            if not drafts:
                return None
            draft, place = drafts[0], -1
        token = draft.tokens[place + 1]
        self.origin.setdefault((*prefix, token), (draft, place + 1))
        return token

    def _propose(self, prefix: Prefix) -> Sequence[Draft]:
        if prefix not in self.drafts:
            # The prefix of max_len tokens is an answer, not a question, hence no draft needs to reach it.
            room = self.max_len - len(prefix)
            drafts = self.drafter.propose(self.source, prefix, room) if room > 0 else ()
            self.drafts[prefix] = [draft for draft in drafts if draft.tokens]
        return self.drafts[prefix]
