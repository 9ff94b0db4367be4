"""Drafter `copy`: the query after the position that best matches the last generated tokens.

Ring labels of SMILES are arbitrary: `c2ccc2` in the query becomes `c1ccc1` in the output if another ring is gone. So
all labels match each other, and a draft opens rings with the lowest free label, as SMILES writers do. The output starts
with the main molecule, which is usually the longest.

Positions in the query count symbols. With a vocabulary whose tokens span several (`merging.py`), text is copied: it is
cut into tokens again behind what has been written, so that a draft does not end where the query's tokens do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice
from typing import Any, NamedTuple

from chemspec.draft.base import Drafter, check_draft_size
from chemspec.draft.merging import Merging
from chemspec.tokenizer import BOS, EOS, PAD
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
    merging: Merging | None = None  # None if every token is one symbol

    @classmethod
    def from_tokens(
        cls, tokens: Sequence[str], prompt_length: int = 0, merges: Sequence[tuple[str, str]] = ()
    ) -> TokenClasses:
        """Find the separator and the ring labels in a vocabulary."""
        joined = set(map("".join, merges))
        rings = [token for token in tokens if _RING.fullmatch(token) and token not in joined]
        rings.sort(key=lambda token: int(token.lstrip("%")))
        dot = tokens.index(".") if "." in tokens else -1
        merging = Merging.from_tokens(tokens, merges) if merges else None
        return cls(dot, tuple(map(tokens.index, rings)), prompt_length, merging)

    @cached_property
    def ring_tokens(self) -> frozenset[int]:
        """The ring labels as a set."""
        return frozenset(self.rings)

    def split(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the symbols of tokens."""
        return tuple(tokens) if self.merging is None else tuple(self.merging.split(tokens))

    def symbol_count(self, token: int) -> int:
        """Return the number of symbols of a token."""
        return 1 if self.merging is None else len(self.merging.parts[token])

    def positions(self, start: int, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the positions in the query of tokens copied from `start` on, each that of its first symbol."""
        counts = map(self.symbol_count, tokens[:-1])
        return tuple(accumulate(counts, initial=start)) if tokens else ()

    def smiles_start(self, source: Sequence[int]) -> int:
        """Return the position where the SMILES starts in a query."""
        return len(self.split(source[: self.prompt_length]))

    def molecule_starts(self, source: Sequence[int]) -> list[int]:
        """Return the start positions of a query's molecules, the longest molecule first."""
        start = self.smiles_start(source)
        starts = []
        for position, token in enumerate((*self.split(source)[start:], self.dot), start):
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
    """Computes and caches the copy states of one query's prefixes; `text` is the query's symbols and eos.

    Sets of positions are bits of an integer, so that one token updates all matches at once (shift-and algorithm of
    Baeza-Yates and Gonnet, 1992). All ring labels count as one token.
    """

    ROOM = 4096  # size of the cache

    def __init__(self, source: Sequence[int], token_classes: TokenClasses) -> None:
        self._source, self._token_classes = token_classes.split(source), token_classes
        self.text = (*self._source, EOS)
        self._positions: dict[int, int] = {}  # symbol -> positions just after it, as bits
        self._source_rings: list[tuple[int, ...]] = [()]  # labels open before each position
        for position, token in enumerate(self._source, 1):
            key = self._token_key(token)
            self._positions[key] = self._positions.get(key, 0) | 1 << position
            self._source_rings.append(token_classes.toggle_ring(self._source_rings[-1], token))
        self._starts = token_classes.molecule_starts(source)
        self._start = CopyState(self._starts[0], 0, token_classes.smiles_start(source), (), ())
        self._states: dict[Prefix, CopyState] = {(BOS,): self._start}
        self._cuts: dict[tuple[int, tuple[int, ...]], list[int]] = {}  # cuts by position and open ring labels

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
        advanced = state
        for symbol in self._token_classes.split(prefix[-1:]):
            advanced = self._advance_by_symbol(advanced, symbol)
        if len(self._states) >= self.ROOM:
            self._states.clear()
            self._states[(BOS,)] = self._start
        self._states[prefix] = advanced
        return advanced

    def _advance_by_symbol(self, state: CopyState, token: int) -> CopyState:
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
        return CopyState(position, len(levels), pointer, tuple(levels), rings)

    def copied_token(self, state: CopyState) -> int:
        """Return the token that copying generates next, with the ring label that fits the prefix."""
        return self.copied_tokens(state, state.position, 1)[0]

    def copied_tokens(self, state: CopyState, position: int, length: int) -> list[int]:
        """Return at most `length` tokens from a position on, with ring labels that fit the prefix."""
        merging = self._token_classes.merging
        if merging is None:
            return self._copied_symbols(state, position, position + length)
        key = position, state.open_rings
        if key not in self._cuts:
            if len(self._cuts) >= self.ROOM:
                self._cuts.clear()
            self._cuts[key] = merging.join(self._copied_symbols(state, position, len(self.text)))
        return self._cuts[key][:length]

    def _copied_symbols(self, state: CopyState, start: int, end: int) -> list[int]:
        return self._token_classes.relabel_rings(self.text[start:end], self._source_rings[start], state.open_rings)

    def tokens_ahead(self, state: CopyState) -> tuple[int, ...]:
        """Return the next three tokens of the query; those beyond its end are pad."""
        if self._token_classes.merging is None:
            ahead = self.text[state.position : state.position + 3]
        else:
            ahead = tuple(self.copied_tokens(state, state.position, 3))
        return (*ahead, *[PAD] * (3 - len(ahead)))

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


def copied_draft(tokens: Prefix, name: str, positions: tuple[int, ...], end: int, **options: Any) -> Draft:
    """Return a draft copied from these positions (-1: none) of a query with `end` symbols, as one span if it is one."""
    first = positions[0]
    if first >= 0 and positions == tuple(range(first, first + len(positions))):
        return Draft(tokens, name, (first, min(first + len(positions), end)), **options)
    return Draft(tokens, name, positions=positions, **options)


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
                positions = self.token_classes.positions(position, tokens)
                drafts.append(copied_draft(tokens, "copy", positions, len(tracker.text) - 1, match=match))
        return drafts
