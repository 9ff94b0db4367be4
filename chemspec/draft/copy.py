"""Go on copying: the query's text after the place that the last written tokens match best.

Two facts about SMILES make the match better than one of plain text. Ring labels are arbitrary: `c2ccc2` of the query
comes
back as `c1ccc1` once another ring is gone, so labels match each other, and a draft opens its rings with the lowest free
label, as the writer of the SMILES does. And an answer begins with the main molecule, which is mostly the longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from chemspec.draft.base import check_size
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix


@dataclass(frozen=True)
class TokenClasses:
    """The ids of a vocabulary's tokens that mean something to a drafter; without them text is just text.

    Attributes:
        dot: between two molecules.
        rings: ring labels, in the order in which a SMILES uses them.
        head: tokens at the beginning of every query that are no SMILES.
    """

    dot: int = -1
    rings: tuple[int, ...] = ()
    head: int = 0

    @classmethod
    def of(cls, tokens: Sequence[str]) -> TokenClasses:
        rings = [token for token in tokens if token.isdigit() or token.startswith("%")]
        rings.sort(key=lambda token: int(token.lstrip("%")))
        return cls(tokens.index(".") if "." in tokens else -1, tuple(map(tokens.index, rings)))

    @cached_property
    def is_ring(self) -> frozenset[int]:
        return frozenset(self.rings)

    def start(self, source: Sequence[int]) -> int:
        """Where the SMILES begins in a query."""
        return min(self.head, len(source))

    def beginnings(self, source: Sequence[int]) -> list[int]:
        """Where the molecules of a query begin, the longest first."""
        start = self.start(source)
        starts = []
        for place, token in enumerate((*source[start:], self.dot), start):
            if token == self.dot:
                starts.append((start - place, start))
                start = place + 1
        return [start for _, start in sorted(starts)]


@dataclass(frozen=True)
class Copy:
    """The best few places in the query: longest match with what was written last, then nearest to the aligned place.

    The aligned place is where copying would stand had every written token moved it: a running pointer into the query.

    Attributes:
        length: most tokens of a draft.
        count: most places tried, as one tree.
        context: matches are compared up to this length; longer ones tell nothing more.
        marks: what is known of the vocabulary.
    """

    length: int = 12
    count: int = 1
    context: int = 12
    marks: TokenClasses = TokenClasses()

    def __post_init__(self) -> None:
        check_size(self.length, self.count)

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        drafts = []
        for place, match in self.ranked(source, prefix)[: self.count]:
            draft = self.draft(source, prefix, place, match, min(self.length, room))
            if draft.tokens:
                drafts.append(draft)
        return drafts

    def draft(self, source: Sequence[int], prefix: Prefix, place: int, match: int, length: int) -> Draft:
        """`length` tokens of the query from `place` on (eos at its end), rings labelled as `prefix` needs them."""
        text = (*source, EOS)[place : place + length]
        tokens = self._relabelled(text, source[:place], prefix) if self.marks.rings else text
        return Draft(tuple(tokens), "copy", (place, min(place + len(text), len(source))), match)

    def ranked(self, source: Sequence[int], prefix: Prefix) -> list[tuple[int, int]]:
        """Places in the query from which to copy next with the length of their match, best first."""
        written = prefix[1:]
        if not written:
            return [(place, 0) for place in self.marks.beginnings(source)]
        aligned = follow(source, written, self.marks.start(source))
        found = [(-match, abs(end - aligned), end) for end, match in self._matches(source, written)]
        return [(end, -match) for match, _, end in sorted(found)] or [(aligned, 0)]

    def _matches(self, source: Sequence[int], written: Sequence[int]) -> list[tuple[int, int]]:
        """(place after a match, its length) for every place that matches at least the last token."""
        rings = self.marks.is_ring
        last, last_is_ring = written[-1], written[-1] in rings
        matches = []
        for end in range(1, len(source) + 1):
            here = source[end - 1]
            if here == last or (last_is_ring and here in rings):
                length = self._match(source, end, written)
                if length:
                    matches.append((end, length))
        return matches

    def _match(self, source: Sequence[int], end: int, written: Sequence[int]) -> int:
        """How many tokens before `end` equal the last written ones, ring labels up to renaming."""
        rings = self.marks.is_ring
        there: dict[int, int] = {}
        back: dict[int, int] = {}
        length = 0
        while length < min(self.context, end, len(written)):
            one, other = source[end - 1 - length], written[-1 - length]
            if one in rings and other in rings:
                if there.setdefault(one, other) != other or back.setdefault(other, one) != one:
                    break
            elif one != other:
                break
            length += 1
        return length

    def _relabelled(self, text: Sequence[int], before: Sequence[int], prefix: Prefix) -> list[int]:
        """`text` of the query, with the ring labels that it would have after `prefix`."""
        rings = self.marks.is_ring
        theirs, ours = _open(before, rings), _open(prefix, rings)
        # Rings open on both sides correspond from the innermost outward.
        label = dict(zip(reversed(theirs), reversed(ours), strict=False))
        tokens = []
        for token in text:
            if token in rings:
                if token in label:
                    token = label.pop(token)
                    ours.remove(token)
                else:
                    token, old = (next((free for free in self.marks.rings if free not in ours), token), token)
                    label[old] = token
                    ours.append(token)
            tokens.append(token)
        return tokens


def _open(tokens: Sequence[int], rings: frozenset[int]) -> list[int]:
    """Ring labels that are opened and not closed, in the order of opening."""
    opened: list[int] = []
    for token in tokens:
        if token in rings:
            if token in opened:
                opened.remove(token)
            else:
                opened.append(token)
    return opened


def follow(source: Sequence[int], written: Sequence[int], place: int = 0) -> int:
    """A pointer into the query that moves along as written tokens copy it, and jumps ahead over small deletions."""
    for token in written:
        if place < len(source) and source[place] == token:
            place += 1
            continue
        for ahead in range(place + 1, min(place + 4, len(source))):
            if source[ahead] == token:
                place = ahead + 1
                break
    return place
