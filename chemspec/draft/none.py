"""Drafter `none`: standard decoding without drafts."""

from collections.abc import Sequence
from dataclasses import dataclass

from chemspec.draft.base import Drafter
from chemspec.types import Draft, Prefix


@dataclass(frozen=True)
class NoDrafts(Drafter):
    """Proposes nothing."""

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        return ()
