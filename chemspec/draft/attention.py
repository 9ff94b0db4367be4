"""Copy on from where the decoder looks: its cross-attention says which of the matching positions is meant.

Andronov et al. (2024) leave open "a drafting strategy for SMILES that removes the need for multiple parallel drafts".
The decoder itself knows what it is copying: some heads of its cross-attention point at the token that they are about to
write. For a position p in the query, from which copying would go on, the score is

    s(p) = gain[match(p)] + away * ln(1 + |p - pointer|) + sum_h last_h ln a_h(p - 1) + here_h ln a_h(p)

with a_h the attention of head h at the last node that was computed, which is the one that wrote the last token. Heads
and weights are fitted by maximum likelihood of the position that copies furthest, on validation queries (`chemspec
train calibrate`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, log1p

from chemspec.draft.base import SessionNeeds, SessionView, check_draft_size
from chemspec.draft.calibration import AttentionWeights
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.draft.tree.copy_state import CopyTracker
from chemspec.types import Draft, Prefix

# The attention (heads, source tokens) at the last token of a query's prefix; None if that has not been computed.
ReadAttention = Callable[[tuple[int, ...], Prefix], Sequence[Sequence[float]] | None]
FLOOR = 1e-3  # smaller attentions are not told apart


class Attention:
    """The best `count` positions, ranked by match, nearness and attention; without attention, as `copy` ranks them.

    One object serves one run: it remembers the copy states of the prefixes that it has met.

    Attributes:
        read_attention: gives the attention; see `watch`.
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
            attention_weights: the heads and their weights; without, positions are ranked as `copy` does.
            length: most tokens of a draft.
            count: most drafts.
            token_classes: what is known of the vocabulary.
        """
        check_draft_size(length, count)
        self.attention_weights = attention_weights
        self.read_attention: ReadAttention = lambda *_: None  # before there is a session
        self.copy = Copy(length=length, count=count, token_classes=token_classes)
        self._trackers: dict[tuple[int, ...], CopyTracker] = {}

    @property
    def needs(self) -> SessionNeeds:
        """The attention of its heads."""
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
        """Return positions in the query from which to copy next, each with the length of its match, best first."""
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
