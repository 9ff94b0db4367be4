"""Text of a vocabulary with merges, on token ids: what a drafter copies is text, which is cut into tokens again.

A token of such a vocabulary spans several symbols: atoms, bonds, brackets and ring labels, which have ids of their own.
A piece of text that begins where a token ends is cut as it is in the whole text, since no merge crosses that border.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from chemspec.tokenizer import join_pairs, split_smiles


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

    @cached_property
    def _joined(self) -> list[int]:
        return [token for *_, token in self.merges]

    def split(self, tokens: Iterable[int]) -> list[int]:
        """Return the symbols of tokens."""
        return [symbol for token in tokens for symbol in self.parts[token]]

    def join(self, symbols: Sequence[int]) -> list[int]:
        """Return the tokens of a text, given its symbols, as `Tokenizer.encode` cuts it."""
        return join_pairs(symbols, self._ranks, self._joined)
