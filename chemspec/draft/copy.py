"""Drafter `copy`: the query after the position that best matches the last generated tokens.

Ring labels of SMILES are arbitrary: `c2ccc2` in the query becomes `c1ccc1` in the output if another ring is gone. So
all labels match each other, and a draft opens rings with the lowest free label, as SMILES writers do. The output starts
with the main molecule, which is usually the longest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from chemspec.draft.base import Drafter, check_draft_size
from chemspec.tokenizer import BOS, EOS
from chemspec.types import Draft, Prefix

MAX_SKIP = 3  # longest deletion, in tokens of the query, that the aligned pointer can skip
MAX_MATCH = 12  # longer matches count as this length
ANY_RING = -1
_RING = re.compile(r"%?[0-9]+")


@dataclass(frozen=True)
class TokenClasses:
    """Ids of the tokens with a special meaning for drafters: molecule separator and ring labels."""

    dot: int = -1  # separator of molecules; -1 if there is none
    rings: tuple[int, ...] = ()  # ring labels, in the order in which SMILES use them
    prompt_length: int = 0  # number of tokens before the SMILES of every query, such as a task name

    @classmethod
    def from_tokens(cls, tokens: Sequence[str], prompt_length: int = 0) -> TokenClasses:
        """Find the separator and the ring labels in a vocabulary."""
        rings = [token for token in tokens if _RING.fullmatch(token)]
        rings.sort(key=lambda token: int(token.lstrip("%")))
        return cls(tokens.index(".") if "." in tokens else -1, tuple(map(tokens.index, rings)), prompt_length)

    @cached_property
    def ring_tokens(self) -> frozenset[int]:
        """The ring labels as a set."""
        return frozenset(self.rings)

    def smiles_start(self, source: Sequence[int]) -> int:
        """Return the position where the SMILES starts in a query."""
        return min(self.prompt_length, len(source))

    def molecule_starts(self, source: Sequence[int]) -> list[int]:
        """Return the start positions of a query's molecules, the longest molecule first."""
        start = self.smiles_start(source)
        starts = []
        for position, token in enumerate((*source[start:], self.dot), start):
            if token == self.dot:
                starts.append((start - position, start))
                start = position + 1
        return [start for _, start in sorted(starts)]

    def toggle_ring(self, open_rings: tuple[int, ...], token: int) -> tuple[int, ...]:
        """Return the open ring labels after one more token, in the order of opening."""
        if token not in self.ring_tokens:
            return open_rings
        if token in open_rings:
            return tuple(label for label in open_rings if label != token)
        return (*open_rings, token)

    def relabel_rings(
        self, tokens: Sequence[int], source_rings: Sequence[int], prefix_rings: Sequence[int]
    ) -> list[int]:
        """Adapt the ring labels of a piece of the query to a prefix, given the labels open before both."""
        taken = list(prefix_rings)
        # Rings open on both sides correspond from the most recently opened backward.
        renamed = dict(zip(reversed(source_rings), reversed(prefix_rings), strict=False))
        relabelled = []
        for token in tokens:
            label = token
            if token in self.ring_tokens:
                if token in renamed:
                    label = renamed.pop(token)
                    taken.remove(label)
                else:
                    label = next((free for free in self.rings if free not in taken), token)
                    renamed[token] = label
                    taken.append(label)
            relabelled.append(label)
        return relabelled


class CopyState(NamedTuple):
    """Alignment of a prefix with the query."""

    # Position in the query where copying continues: after the longest match with the last tokens; of equal matches the
    # nearest to the pointer.
    position: int
    match: int  # length of that match
    pointer: int  # position that copying has reached if every token advanced it; it skips small deletions
    levels: tuple[int, ...]  # positions after a match of at least 1, 2, ... tokens, as bits; none is empty.
    open_rings: tuple[int, ...]  # ring labels that are open in the prefix, in the order of opening


class CopyTracker:
    """Computes and caches the copy states of one query's prefixes; `text` is the query's tokens and eos.

    Sets of positions are bits of an integer, so that one token updates all matches at once (shift-and algorithm of
    Baeza-Yates and Gonnet, 1992). All ring labels count as one token.
    """

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
        self._starts = token_classes.molecule_starts(source)
        self._start = CopyState(self._starts[0], 0, token_classes.smiles_start(source), (), ())
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
        pointer = _advance_pointer(self._source, token, state.pointer)
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
        return self.copied_tokens(state, state.position, 1)[0]

    def copied_tokens(self, state: CopyState, position: int, length: int) -> list[int]:
        """Return at most `length` tokens from a position on, with ring labels that fit the prefix."""
        tokens = self.text[position : position + length]
        return self._token_classes.relabel_rings(tokens, self._source_rings[position], state.open_rings)

    def rank_positions(self, state: CopyState) -> Iterator[tuple[int, int]]:
        """Yield the positions from which to copy, with their match lengths, best first."""
        if state is self._start:
            yield from ((position, 0) for position in self._starts)
        elif not state.match:
            yield state.pointer, 0
        longer = 0
        for match in range(state.match, 0, -1):
            level = state.levels[match - 1]
            ends = [end for end in range(1, len(self.text)) if (level & ~longer) >> end & 1]
            yield from ((end, match) for end in sorted(ends, key=lambda end: abs(end - state.pointer)))
            longer = level


def _advance_pointer(source: Sequence[int], token: int, pointer: int) -> int:
    """Return the pointer after one more generated token."""
    if pointer < len(source) and source[pointer] == token:
        return pointer + 1
    for ahead in range(pointer + 1, min(pointer + 1 + MAX_SKIP, len(source))):
        if source[ahead] == token:
            return ahead + 1
    return pointer


def _nearest_position(positions: int, pointer: int) -> int:
    """Return the position nearest to the pointer, in a tie the one before it; the set must not be empty."""
    before = (positions & ((2 << pointer) - 1)).bit_length() - 1
    after = positions >> pointer
    if not after:
        return before
    ahead = (after & -after).bit_length() - 1
    return before if before >= 0 and pointer - before <= ahead else pointer + ahead


@dataclass(frozen=True)
class Copy(Drafter):
    """Drafts from the best positions in the query; create one per run, since it caches queries."""

    length: int = 12  # maximum draft length in tokens
    count: int = 1  # maximum number of positions, merged into one tree
    token_classes: TokenClasses = TokenClasses()  # special tokens of the vocabulary
    _trackers: dict[Prefix, CopyTracker] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        check_draft_size(self.length, self.count)

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        tracker = self._trackers.get(key := tuple(source))
        if tracker is None:
            tracker = self._trackers[key] = CopyTracker(key, self.token_classes)
        length, state, drafts = min(self.length, max_new_tokens), tracker.state_after(prefix), []
        for position, match in islice(tracker.rank_positions(state), self.count):
            if tokens := tuple(tracker.copied_tokens(state, position, length)):
                drafts.append(Draft(tokens, "copy", (position, min(position + len(tokens), len(source))), match))
        return drafts
