"""Copy on from where the decoder looks: its cross-attention says which of the places that match is meant.

Andronov et al. (2024) leave open "a drafting strategy for SMILES that removes the need for multiple parallel drafts".
The
decoder itself knows what it is copying: some heads of its cross-attention point at the token that they are about to
write. For a
place p in the query, from which copying would go on, the score is

    s(p) = gain[match(p)] + away * ln(1 + |p - pointer|) + sum_h last_h ln a_h(p - 1) + here_h ln a_h(p)

with a_h the attention of head h at the last node that was computed, which is the one that wrote the last token. Heads
and
weights are fitted by maximum likelihood of the place that copies furthest, on validation queries (`chemspec
dev calibrate`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, log1p

from chemspec.draft.base import SessionNeeds, SessionView, check_size
from chemspec.draft.calibration import AttentionWeights
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.draft.tree.copy_state import CopyTracker
from chemspec.types import Draft, Prefix

# Of a query's prefix that has been computed, the attention of each head wanted to each of the query's tokens.
Look = Callable[[tuple[int, ...], Prefix], Sequence[Sequence[float]] | None]
FLOOR = 1e-3  # smaller attentions are not told apart


def nothing_seen(source: tuple[int, ...], prefix: Prefix) -> None:
    """Nobody looks: what stands in where no model is at hand."""


class Attention:
    """The best `count` places, ranked by match, nearness and attention; where nothing was seen yet, as `copy` ranks
    them.

    One object serves one run: it remembers the trails of the prefixes that it has met.

    Attributes:
        looks: gives the attention; see `watch`.
    """

    def __init__(
        self,
        reading: AttentionWeights | None,
        *,
        length: int = 12,
        count: int = 1,
        marks: TokenClasses = TokenClasses(),
    ) -> None:
        check_size(length, count)
        self.reading = reading
        self.looks: Look = nothing_seen
        self.copy = Copy(length=length, count=count, marks=marks)
        self._readers: dict[tuple[int, ...], CopyTracker] = {}

    @property
    def heads(self) -> tuple[tuple[int, int], ...]:
        """Layer and number of the heads whose attention it wants."""
        return tuple((one.layer, one.head) for one in self.reading.heads) if self.reading else ()

    @property
    def needs(self) -> SessionNeeds:
        """The attention of its heads."""
        return SessionNeeds(heads=self.heads)

    def watch(self, session: SessionView) -> None:
        """Read the attention from this session."""
        self.looks = session.attention

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        copy, reach = self.copy, min(self.copy.length, room)
        drafts = []
        for place, match in self.ranked(source, prefix)[: copy.count]:
            draft = copy.draft(source, prefix, place, match, reach)
            if draft.tokens:
                drafts.append(Draft(draft.tokens, "attention", draft.span, match))
        return drafts

    def ranked(self, source: Sequence[int], prefix: Prefix) -> list[tuple[int, int]]:
        """Places in the query from which to copy next with the length of their match, best first."""
        key, reading = tuple(source), self.reading
        seen = self.looks(key, prefix[:-1]) if reading is not None and len(prefix) > 1 else None
        if reading is None or seen is None:
            return self.copy.ranked(source, prefix)
        reader = self._readers.get(key)
        if reader is None:
            reader = self._readers[key] = CopyTracker(key, self.copy.marks)
        trail = reader.trail(prefix)
        logs = [[log(max(weight, FLOOR)) for weight in row[: len(key)]] for row in seen]
        none, longest, matches = log(FLOOR), len(reading.match) - 1, trail.matches
        found = []
        for place in range(len(key) + 1):
            match = matches.get(place, 0)
            score = reading.match[min(match, longest)]
            score += reading.away * log1p(abs(place - trail.pointer))
            for head, row in zip(reading.heads, logs, strict=True):
                score += head.last * (row[place - 1] if place else none)
                score += head.here * (row[place] if place < len(key) else none)
            found.append((-score, place, match))
        return [(place, match) for _, place, match in sorted(found)]
