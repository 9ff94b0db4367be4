"""Drafter `copy`: the query after the position that best matches the last generated tokens.

Ring labels of SMILES are arbitrary: `c2ccc2` in the query becomes `c1ccc1` in the output if another ring is gone. So
all labels match each other, and a draft opens rings with the lowest free label, as SMILES writers do. The output starts
with the main molecule, which is usually the longest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from chemspec.draft.base import Drafter, check_draft_size
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix

MAX_SKIP = 3  # longest deletion, in tokens of the query, that the aligned pointer can skip
MAX_MATCH = 12  # longer matches count as this length
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

    def open_rings(self, tokens: Iterable[int]) -> tuple[int, ...]:
        """Return the ring labels that are open after these tokens, in the order of opening."""
        return reduce(self.toggle_ring, tokens, ())

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


@dataclass(frozen=True)
class Copy(Drafter):
    """Drafts from the best positions in the query: longest match with the last tokens, then nearest to the pointer.

    The pointer is the position that copying has reached if every generated token advanced it.
    """

    length: int = 12  # maximum draft length in tokens
    count: int = 1  # maximum number of positions, merged into one tree
    token_classes: TokenClasses = TokenClasses()  # special tokens of the vocabulary

    def __post_init__(self) -> None:
        check_draft_size(self.length, self.count)

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        length, classes, drafts = min(self.length, max_new_tokens), self.token_classes, []
        for position, match in self.rank_positions(source, prefix)[: self.count]:
            tokens: Sequence[int] = (*source, EOS)[position : position + length]
            if classes.rings:  # those of the draft must fit the prefix
                source_rings = classes.open_rings(source[:position])
                tokens = classes.relabel_rings(tokens, source_rings, classes.open_rings(prefix))
            if tokens:
                span = position, min(position + len(tokens), len(source))
                drafts.append(Draft(tuple(tokens), "copy", span, match))
        return drafts

    def rank_positions(self, source: Sequence[int], prefix: Prefix) -> list[tuple[int, int]]:
        """Return positions in the query from which to copy, with their match lengths, best first."""
        written = prefix[1:]
        if not written:
            return [(position, 0) for position in self.token_classes.molecule_starts(source)]
        aligned = align_pointer(source, written, self.token_classes.smiles_start(source))
        rings = self.token_classes.ring_tokens
        alike = rings if written[-1] in rings else {written[-1]}
        ends = [end for end, token in enumerate(source, 1) if token in alike]
        ranked = sorted((-self._match_length(source, end, written), abs(end - aligned), end) for end in ends)
        return [(end, -match) for match, _, end in ranked if match] or [(aligned, 0)]

    def _match_length(self, source: Sequence[int], end: int, written: Sequence[int]) -> int:
        """Return how many tokens before `end` match the last generated ones, up to renaming of ring labels."""
        is_ring = self.token_classes.ring_tokens
        renamed: dict[int, int] = {}  # label in the query -> label in the output
        original: dict[int, int] = {}  # label in the output -> label in the query
        length = 0
        while length < min(MAX_MATCH, end, len(written)):
            theirs, ours = source[end - 1 - length], written[-1 - length]
            if theirs in is_ring and ours in is_ring:
                if renamed.setdefault(theirs, ours) != ours or original.setdefault(ours, theirs) != theirs:
                    break
            elif theirs != ours:
                break
            length += 1
        return length


def align_pointer(source: Sequence[int], written: Sequence[int], pointer: int = 0) -> int:
    """Return the pointer into the query after the generated tokens; it skips small deletions."""
    for token in written:
        pointer = advance_pointer(source, token, pointer)
    return pointer


def advance_pointer(source: Sequence[int], token: int, pointer: int) -> int:
    """Return the pointer after one more generated token."""
    if pointer < len(source) and source[pointer] == token:
        return pointer + 1
    for ahead in range(pointer + 1, min(pointer + 1 + MAX_SKIP, len(source))):
        if source[ahead] == token:
            return ahead + 1
    return pointer
