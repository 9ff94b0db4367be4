"""Drafter `attention`: copying from the position that the target's cross-attention points at.

Andronov et al. (2024) leave open "a drafting strategy for SMILES that removes the need for multiple parallel drafts".
Some cross-attention heads of the decoder point at the token that is copied next. A position p in the query, from which
copying may continue, has the score

    s(p) = gain[match(p)] + away * ln(1 + |p - pointer|) + sum_h last_h ln a_h(p - 1) + here_h ln a_h(p)

where a_h is the attention of head h at the last computed node, the one that predicted the last token. Heads and weights
are fitted by maximum likelihood of the position that copies furthest, on validation queries (`chemspec train
calibrate`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, log1p

from chemspec.draft.base import SessionNeeds, SessionView, check_draft_size
from chemspec.draft.calibration import AttentionWeights
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.draft.tree.copy_state import CopyTracker
from chemspec.types import Draft, Prefix

# Returns the attention (heads, source tokens) at the last token of a query's prefix; None if it was not computed.
ReadAttention = Callable[[tuple[int, ...], Prefix], Sequence[Sequence[float]] | None]
FLOOR = 1e-3  # smaller attention weights are raised to this


class Attention:
    """Drafts from the best `count` positions by match, distance and attention; without attention as `copy`.

    Create one per run, since it caches the copy states of prefixes.

    Attributes:
        read_attention: returns the attention; see `watch`.
    """

    def __init__(
        self,
        attention_weights: AttentionWeights | None,
        *,
        length: int = 12,
        count: int = 1,
        token_classes: TokenClasses = TokenClasses(),
    ) -> None:
        """Rank with fitted weights.

        Args:
            attention_weights: heads and their weights; without them positions are ranked as in `copy`.
            length: maximum draft length in tokens.
            count: maximum number of drafts.
            token_classes: special tokens of the vocabulary.
        """
        check_draft_size(length, count)
        self.attention_weights = attention_weights
        self.read_attention: ReadAttention = lambda *_: None  # before there is a session
        self.copy = Copy(length=length, count=count, token_classes=token_classes)
        self._trackers: dict[tuple[int, ...], CopyTracker] = {}

    @property
    def needs(self) -> SessionNeeds:
        """The attention of its heads, as an extra output of the target."""
        weights = self.attention_weights
        return SessionNeeds(heads=tuple((head.layer, head.head) for head in weights.heads) if weights else ())

    def watch(self, session: SessionView) -> None:
        """Read the attention from this session."""
        self.read_attention = session.attention

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        copy, length = self.copy, min(self.copy.length, max_new_tokens)
        drafts = []
        for position, match in self.rank_positions(source, prefix)[: copy.count]:
            draft = copy.draft_at_position(source, prefix, position, match, length)
            if draft.tokens:
                drafts.append(Draft(draft.tokens, "attention", draft.span, match))
        return drafts

    def rank_positions(self, source: Sequence[int], prefix: Prefix) -> list[tuple[int, int]]:
        """Return positions in the query from which to copy, with their match lengths, best first."""
        key, weights = tuple(source), self.attention_weights
        attention = self.read_attention(key, prefix[:-1]) if weights is not None and len(prefix) > 1 else None
        if weights is None or attention is None:
            return self.copy.rank_positions(source, prefix)
        tracker = self._trackers.get(key)
        if tracker is None:
            tracker = self._trackers[key] = CopyTracker(key, self.copy.token_classes)
        state = tracker.state_after(prefix)
        logs = [[log(max(weight, FLOOR)) for weight in row[: len(key)]] for row in attention]
        outside, longest, matches = log(FLOOR), len(weights.match) - 1, state.match_lengths
        ranked = []
        for position in range(len(key) + 1):
            match = matches.get(position, 0)
            score = weights.match[min(match, longest)]
            score += weights.away * log1p(abs(position - state.pointer))
            for head, row in zip(weights.heads, logs, strict=True):
                score += head.last * (row[position - 1] if position else outside)
                score += head.here * (row[position] if position < len(key) else outside)
            ranked.append((-score, position, match))
        return [(position, match) for _, position, match in sorted(ranked)]
