"""Text of a vocabulary with merges, on token ids: what a drafter copies is text, which is cut into tokens again.

A token of such a vocabulary spans several symbols: atoms, bonds, brackets and ring labels, which have ids of their own.
A piece of text that begins where a token ends is cut as it is in the whole text, since no merge crosses that border.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from chemspec.tokenizer import split_smiles


@dataclass(frozen=True, eq=False)
class Merging:
    """Merges of a vocabulary: how symbols become tokens (byte-pair encoding), and tokens symbols."""

    merges: tuple[tuple[int, int, int], ...]  # left, right and joined token, in order of preference
    parts: tuple[tuple[int, ...], ...]  # symbols of every token, by its id

    @classmethod
    def from_tokens(cls, tokens: Sequence[str], merges: Iterable[tuple[str, str]]) -> Merging:
        """Return the merges of a vocabulary; they must be those of a valid `Tokenizer`."""
        ids = {token: number for number, token in enumerate(tokens)}
        joined = {(ids[left], ids[right]): ids[left + right] for left, right in reversed([*merges])}
        parts: list[tuple[int, ...]] = [(number,) for number in range(len(tokens))]
        for token in joined.values():
            parts[token] = tuple(ids[symbol] for symbol in split_smiles(tokens[token]))
        return cls(tuple((*pair, token) for pair, token in reversed(joined.items())), tuple(parts))

    @cached_property
    def _ranks(self) -> dict[tuple[int, int], int]:
        return {(left, right): rank for rank, (left, right, _) in enumerate(self.merges)}

    def split(self, tokens: Iterable[int]) -> list[int]:
        """Return the symbols of tokens."""
        return [symbol for token in tokens for symbol in self.parts[token]]

    def join(self, symbols: Sequence[int]) -> list[int]:
        """Return the tokens of a text, given its symbols, as `Tokenizer.encode` cuts it."""
        tokens, rank_of, count = list(symbols), self._ranks.get, len(self.merges)
        ranks = [rank_of(pair, count) for pair in pairwise(tokens)]
        while ranks and (best := min(ranks)) < count:
            joined, at = self.merges[best][2], 0
            while best in ranks:  # from the left, as often as it occurs
                at = ranks.index(best, at)
                tokens[at : at + 2] = [joined]
                del ranks[at]
                if at:
                    ranks[at - 1] = rank_of((tokens[at - 1], joined), count)
                if at < len(ranks):
                    ranks[at] = rank_of((joined, tokens[at + 1]), count)
        return tokens
