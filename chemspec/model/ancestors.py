"""Attention masks of prefix trees, for runners that compute attention over all slots of a query."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chemspec.model.runner import Ints

Mask = NDArray[np.bool_]


class AncestorMask:
    """Attention mask of one query's slots: each attends to its ancestors and itself."""

    def __init__(self) -> None:
        self.count = 0  # slots in use
        self._mask = np.zeros((64, 64), dtype=np.bool_)

    def add(self, parents: Sequence[int]) -> Mask:
        """Add nodes; returns the attention mask of these n, (n, slots + n)."""
        start, stop = self.count, self.count + len(parents)
        if stop > len(self._mask):
            grown = np.zeros((2 * stop, 2 * stop), dtype=np.bool_)
            grown[:start, :start] = self._mask[:start, :start]
            self._mask = grown
        mask = self._mask
        for slot, parent in enumerate(parents, start):
            mask[slot] = mask[parent] if parent >= 0 else False
            mask[slot, slot] = True
        self.count = stop
        return mask[start:stop, :stop]

    def keep(self, slots: Ints) -> None:
        """Keep these slots, in this order."""
        mask = np.zeros_like(self._mask)
        mask[: len(slots), : len(slots)] = self._mask[np.ix_(slots, slots)]
        self._mask, self.count = mask, len(slots)
