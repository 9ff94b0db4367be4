"""Drafter `smart`: pieces of the query after the last generated token ("smart drafts" of Andronov et al. 2025)."""

from collections.abc import Sequence
from dataclasses import dataclass

from chemspec.draft.base import Drafter, check_draft_size
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix


@dataclass(frozen=True)
class Smart(Drafter):
    """Drafts the query after each occurrence of the last token, in order; the query's start if there is none.

    A draft that reaches the end of the query includes eos.
    """

    length: int = 10  # maximum draft length in tokens
    count: int = 10  # maximum number of drafts

    def __post_init__(self) -> None:
        check_draft_size(self.length, self.count)

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        text = (*source, EOS)
        starts = [i + 1 for i, token in enumerate(source) if token == prefix[-1]] or [0]
        length = min(self.length, max_new_tokens)
        return [Draft(text[i : i + length], "smart", (i, min(i + length, len(source)))) for i in starts[: self.count]]
