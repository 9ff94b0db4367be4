"""Go on copying: the query's text after the place that the last written tokens match best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix


@dataclass(frozen=True)
class Copy:
    """The best few places in the query: longest match with what was written last, then nearest to the aligned place.

    The aligned place is where copying would stand had every written token moved it: a running pointer into the query.

    Attributes:
        length: most tokens of a draft.
        count: most places tried, as one tree.
        context: matches are compared up to this length; longer ones tell nothing more.
        least: a match must be this long; where none is, the aligned place itself is tried.
    """

    length: int = 12
    count: int = 1
    context: int = 12
    least: int = 1

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"draft length {self.length}; it must be at least 1")
        if self.count < 1:
            raise ValueError(
                f"{self.count} drafts; there must be at least 1 (for none choose the drafter none)"
            )

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        text = (*source, EOS)
        drafts = []
        for place, match in self.ranked(source, prefix)[: self.count]:
            tokens = text[place : place + min(self.length, room)]
            if tokens:
                drafts.append(
                    Draft(tokens, "copy", (place, min(place + len(tokens), len(source))), match)
                )
        return drafts

    def ranked(self, source: Sequence[int], prefix: Prefix) -> list[tuple[int, int]]:
        """Places in the query from which to copy next with the length of their match, best first."""
        written = prefix[1:]
        aligned = follow(source, written)
        found = [(-match, abs(end - aligned), end) for end, match in self._matches(source, written)]
        return [(end, -match) for match, _, end in sorted(found)] or [(aligned, 0)]

    def _matches(self, source: Sequence[int], written: Sequence[int]) -> list[tuple[int, int]]:
        """(place after a match, its length) for every place where the last `least` tokens occur."""
        if not written:
            return []
        matches = []
        for end in range(1, len(source) + 1):
            length = 0
            while length < self.context and length < min(end, len(written)):
                if source[end - 1 - length] != written[-1 - length]:
                    break
                length += 1
            if length >= self.least:
                matches.append((end, length))
        return matches


def follow(source: Sequence[int], written: Sequence[int]) -> int:
    """A pointer into the query that moves along as the written tokens copy it, and jumps ahead over small deletions."""
    place = 0
    for token in written:
        if place < len(source) and source[place] == token:
            place += 1
            continue
        for ahead in range(place + 1, min(place + 4, len(source))):
            if source[ahead] == token:
                place = ahead + 1
                break
    return place
