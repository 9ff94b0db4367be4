"""Copy state of a prefix, computed incrementally from that of its parent.

Searching the query after every prefix, as `Copy` does, is too slow for every node of a tree. Here sets of positions are
bits of an integer, so that one token updates all matches at once (shift-and algorithm of Baeza-Yates and Gonnet, 1992).
All ring labels count as one token.
"""

from collections.abc import Sequence
from typing import NamedTuple

from chemspec.draft.copy import MAX_MATCH, TokenClasses, advance_pointer
from chemspec.tokenizer import BOS, EOS
from chemspec.types import Prefix

ANY_RING = -1


class CopyState(NamedTuple):
    """Alignment of a prefix with the query."""

    # Position in the query where copying continues: after the longest match with the last tokens; of equal matches the
    # nearest to the pointer.
    position: int
    match: int  # length of that match
    pointer: int  # position if every token advanced it; see `copy.align_pointer`
    levels: tuple[int, ...]  # positions after a match of at least 1, 2, ... tokens, as bits; none is empty.
    open_rings: tuple[int, ...]  # ring labels that are open in the prefix, in the order of opening


class CopyTracker:
    """Computes and caches the copy states of one query's prefixes; `text` is the query's tokens and eos."""

    ROOM = 4096  # size of the cache

    def __init__(self, source: Sequence[int], token_classes: TokenClasses) -> None:
        self.text = (*source, EOS)
        self._source, self._token_classes = tuple(source), token_classes
        self._positions: dict[int, int] = {}  # token -> positions just after it, as bits
        self._source_rings: list[tuple[int, ...]] = [()]  # labels open before each position
        for position, token in enumerate(source, 1):
            key = self._token_key(token)
            self._positions[key] = self._positions.get(key, 0) | 1 << position
            self._source_rings.append(token_classes.toggle_ring(self._source_rings[-1], token))
        start, pointer = token_classes.molecule_starts(source)[0], token_classes.smiles_start(source)
        self._start = CopyState(start, 0, pointer, (), ())
        self._states: dict[Prefix, CopyState] = {(BOS,): self._start}

    def _token_key(self, token: int) -> int:
        return ANY_RING if token in self._token_classes.ring_tokens else token

    def state_after(self, prefix: Prefix) -> CopyState:
        """Return the copy state of a prefix, computed from its longest cached ancestor."""
        known_length = len(prefix)
        while known_length > 1 and prefix[:known_length] not in self._states:
            known_length -= 1
        state = self._states.get(prefix[:known_length], self._start)
        for length in range(known_length + 1, len(prefix) + 1):
            state = self.advance_state(state, prefix[:length])
        return state

    def advance_state(self, state: CopyState, prefix: Prefix) -> CopyState:
        """Return the copy state of `prefix`, given that of its parent."""
        remembered = self._states.get(prefix)
        if remembered is not None:
            return remembered
        token = prefix[-1]
        pointer = advance_pointer(self._source, token, state.pointer)
        levels, level = [], self._positions.get(self._token_key(token), 0)
        if level:
            levels.append(level)
            for shorter in state.levels[: MAX_MATCH - 1]:
                longer = shorter << 1 & level
                if not longer:
                    break
                levels.append(longer)
        position = _nearest_position(levels[-1], pointer) if levels else pointer
        rings = self._token_classes.toggle_ring(state.open_rings, token)
        advanced = CopyState(position, len(levels), pointer, tuple(levels), rings)
        if len(self._states) >= self.ROOM:
            self._states.clear()
            self._states[(BOS,)] = self._start
        self._states[prefix] = advanced
        return advanced

    def copied_token(self, state: CopyState) -> int:
        """Return the token that copying generates next, with the ring label that fits the prefix."""
        token = self.text[state.position]
        source_rings = self._source_rings[state.position]
        return self._token_classes.relabel_rings((token,), source_rings, state.open_rings)[0]


def _nearest_position(positions: int, pointer: int) -> int:
    """Return the position nearest to the pointer, in a tie the one before it; the set must not be empty."""
    before = (positions & ((2 << pointer) - 1)).bit_length() - 1
    after = positions >> pointer
    if not after:
        return before
    ahead = (after & -after).bit_length() - 1
    return before if before >= 0 and pointer - before <= ahead else pointer + ahead
