"""Where the copying stands: what is known of a prefix against its query, worked out token by token.

`Copy` asks afresh after every prefix which places of the query match it. A drafter that thinks about every node of a
tree
cannot afford that, and need not: the places that match a text and one more token are those among the matches of the
text that this token follows. Sets of places are bits of a number, so that all of them take that step at once (the
shift-and
method of Baeza-Yates and Gonnet, 1992). All ring labels count as one token here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chemspec.draft.copy import TokenClasses
from chemspec.tokenizer import BOS, EOS
from chemspec.types import Prefix

CONTEXT = 12  # longer matches are not told apart
ANY_RING = -1


class CopyState(NamedTuple):
    """One prefix against the query.

    Attributes:
        place: where in the query copying would go on: after the longest match with the last tokens, of equal ones the
            nearest to the pointer.
        match: the length of that match.
        pointer: where the copying stands if every token moved it; see `copy.follow`.
        levels: the places after a match of at least 1, 2, ... tokens, as bits; none is empty.
        rings: ring labels that are open in the prefix, in the order of opening.
    """

    place: int
    match: int
    pointer: int
    levels: tuple[int, ...]
    rings: tuple[int, ...]

    @property
    def matches(self) -> dict[int, int]:
        """Every place after a match, with its length."""
        found = {}
        for length, level in enumerate(self.levels, 1):
            while level:
                place = level.bit_length() - 1
                found[place] = length
                level ^= 1 << place
        return found


def beginning(source: Sequence[int], marks: TokenClasses) -> CopyState:
    """The trail of the prefix that is bos alone."""
    return CopyState(marks.beginnings(source)[0], 0, marks.start(source), (), ())


class CopyTracker:
    """One query, and the trails of the prefixes met so far.

    Attributes:
        text: the query's tokens, and eos.
    """

    ROOM = 4096  # trails kept; they can always be made again

    def __init__(self, source: Sequence[int], marks: TokenClasses) -> None:
        self.text = (*source, EOS)
        self.marks = marks
        self._rings = marks.is_ring
        self._places: dict[int, int] = {}  # token -> the places just after it, as bits
        self._open: list[tuple[int, ...]] = [()]  # ring labels open before each place
        for place, token in enumerate(source, 1):
            kind = ANY_RING if token in self._rings else token
            self._places[kind] = self._places.get(kind, 0) | 1 << place
            self._open.append(self._turn(self._open[-1], token))
        self._start = beginning(source, marks)
        self._trails: dict[Prefix, CopyState] = {(BOS,): self._start}

    def trail(self, prefix: Prefix) -> CopyState:
        """The trail of a prefix, by way of its longest known beginning."""
        trails = self._trails
        known = len(prefix)
        while known > 1 and prefix[:known] not in trails:
            known -= 1
        trail = trails.get(prefix[:known], self._start)
        for length in range(known + 1, len(prefix) + 1):
            trail = self.step(trail, prefix[:length])
        return trail

    def step(self, trail: CopyState, prefix: Prefix) -> CopyState:
        """The trail of `prefix`, which is that of `trail` and one more token."""
        found = self._trails.get(prefix)
        if found is not None:
            return found
        token = prefix[-1]
        ring = token in self._rings
        text, pointer = self.text, trail.pointer
        if text[pointer] == token:
            pointer += 1
        else:
            for ahead in range(pointer + 1, min(pointer + 4, len(text) - 1)):
                if text[ahead] == token:
                    pointer = ahead + 1
                    break
        levels, level = [], self._places.get(ANY_RING if ring else token, 0)
        if level:
            levels.append(level)
            for shorter in trail.levels[: CONTEXT - 1]:
                longer = shorter << 1 & level
                if not longer:
                    break
                levels.append(longer)
        best = _nearest(levels[-1], pointer) if levels else pointer
        rings = self._turn(trail.rings, token) if ring else trail.rings
        found = CopyState(best, len(levels), pointer, tuple(levels), rings)
        if len(self._trails) >= self.ROOM:
            self._trails.clear()
            self._trails[(BOS,)] = self._start
        self._trails[prefix] = found
        return found

    def copied(self, trail: CopyState) -> int:
        """The token that copying would write next, a ring label as the prefix needs it."""
        token = self.text[trail.place]
        if token not in self._rings:
            return token
        # Rings open on both sides correspond from the innermost outward.
        theirs, ours = self._open[trail.place], trail.rings
        for one, other in zip(reversed(theirs), reversed(ours), strict=False):
            if one == token:
                return other
        return next((free for free in self.marks.rings if free not in ours), token)

    def _turn(self, rings: tuple[int, ...], token: int) -> tuple[int, ...]:
        """Open labels after one more token."""
        if token not in self._rings:
            return rings
        if token in rings:
            return tuple(label for label in rings if label != token)
        return (*rings, token)


def _nearest(places: int, pointer: int) -> int:
    """Of a set that is not empty, the place nearest to the pointer; of two, the one before it."""
    before = (places & ((2 << pointer) - 1)).bit_length() - 1
    after = places >> pointer
    if not after:
        return before
    ahead = (after & -after).bit_length() - 1
    return before if before >= 0 and pointer - before <= ahead else pointer + ahead
