"""Drafters of Andronov et al., pieces of the query: `windows` (2024, section 2.1) and `smart` (2025)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from chemspec.draft.base import Drafter, check_draft_size
from chemspec.draft.copy import TokenClasses, copied_draft
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix


@dataclass(frozen=True)
class Windows(Drafter):
    """Drafts every window of `length` tokens of the query, or `count` of them if there are more.

    These are evenly spaced, as in the authors' code, or with `first` the first ones, as in the paper's text. They do
    not depend on the output. The last window includes eos, which the authors' code never drafts.
    """

    length: int = 10  # draft length in tokens; DL in the paper
    count: int = 25  # maximum number of drafts; N_d in the paper, about 25
    dilation: int = 0  # tokens skipped between two tokens of a window (the paper's section 3.1 mentions 1)
    token_classes: TokenClasses = field(default_factory=TokenClasses)  # classes of the vocabulary's tokens
    first: bool = False  # keep the first windows

    def __post_init__(self) -> None:
        check_draft_size(self.length, self.count)
        if self.dilation < 0:
            raise ValueError(f"dilation {self.dilation}; it must not be negative")

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        drafts = self._query_windows(tuple(source))
        if max_new_tokens >= self.length:
            return drafts
        return [
            replace(
                draft,
                tokens=draft.tokens[:max_new_tokens],
                span=draft.span and (draft.span[0], min(draft.span[0] + max_new_tokens, draft.span[1])),
                positions=draft.positions[:max_new_tokens],
            )
            for draft in drafts
        ]

    @lru_cache(maxsize=256)  # noqa: B019 - instances are hashable and few
    def _query_windows(self, source: tuple[int, ...]) -> tuple[Draft, ...]:
        """Return the windows of a query."""
        text = (*source, EOS)
        step = self.dilation + 1
        span = (self.length - 1) * step + 1  # tokens of the query that a window covers
        last = max(0, len(text) - span)
        starts: Sequence[int] = range(last + 1)
        if self.first:
            starts = starts[: self.count]
        elif len(starts) > self.count:
            # floor(i * last / (count - 1)), as the authors' code spaces them
            starts = sorted({i * last // max(1, self.count - 1) for i in range(self.count)})
        drafts, positions = [], self.token_classes.positions(0, text)
        name = "first_windows" if self.first else "windows"
        for start in starts:
            tokens = text[start : start + span : step]
            if self.dilation:  # not contiguous, so it has no span
                drafts.append(Draft(tokens, name))
            else:
                drafts.append(copied_draft(tokens, name, positions[start : start + span], positions[-1]))
        return tuple(drafts)


@dataclass(frozen=True)
class Smart(Drafter):
    """Drafts the query after each occurrence of the last generated token, in order; its start if there is none.

    A draft that reaches the end of the query includes eos.
    """

    length: int = 10  # maximum draft length in tokens
    count: int = 10  # maximum number of drafts
    token_classes: TokenClasses = field(default_factory=TokenClasses)  # classes of the vocabulary's tokens

    def __post_init__(self) -> None:
        check_draft_size(self.length, self.count)

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        text = (*source, EOS)
        positions = self.token_classes.positions(0, text)
        starts = [i + 1 for i, token in enumerate(source) if token == prefix[-1]] or [0]
        length = min(self.length, max_new_tokens)
        pieces = (slice(start, start + length) for start in starts[: self.count])
        return [copied_draft(text[piece], "smart", positions[piece], positions[-1]) for piece in pieces if text[piece]]
