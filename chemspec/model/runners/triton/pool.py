"""Keys, values and paths of all sessions of a model, at addresses that stay: recorded passes read them there.

Shapes: L decoder layers, C slots, D width, T source tokens.
"""

from __future__ import annotations

from bisect import insort

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers = NDArray[np.int32]
LARGEST = 1 << 22  # slots: kernels count in 32 bits within a layer


class Space:
    """Numbers below a size that are taken and given back. Number 0 is never given out: padding uses it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = np.arange(size - 1, 0, -1, dtype=np.int32)
        self._count = size - 1  # free ones, at the start of `_free`

    @property
    def free(self) -> int:
        """How many can be taken."""
        return self._count

    def take(self, count: int) -> Numbers:
        """Return so many numbers of those that are free."""
        self._count -= count
        return self._free[self._count : self._count + count][::-1].copy()

    def give(self, numbers: Numbers) -> None:
        """Take numbers back."""
        self._free[self._count : self._count + len(numbers)] = numbers
        self._count += len(numbers)

    def grow(self, size: int) -> None:
        """Add the numbers up to a size."""
        free = np.empty(size - 1, dtype=np.int32)
        more = size - self.size
        free[:more] = np.arange(size - 1, self.size - 1, -1)
        free[more : more + self._count] = self._free[: self._count]
        self._free, self._count, self.size = free, self._count + more, size


class Ranges:
    """Ranges of numbers from 1 up to a size, the first that is free."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._taken: list[tuple[int, int]] = []  # (start, stop), rising

    def find(self, count: int, size: int) -> int | None:
        """Return the start of a free range of numbers below a size, or None if none is long enough."""
        start = 1
        for begin, stop in [*self._taken, (size, size)]:
            if begin - start >= count:
                return start
            start = stop
        return None

    def take(self, start: int, count: int) -> None:
        """Take a range that is free."""
        insort(self._taken, (start, start + count))

    def give(self, start: int) -> None:
        """Take a range back."""
        self._taken = [one for one in self._taken if one[0] != start]


class Pool:
    """The tensors, and who has which part of them.

    Attributes:
        cache: keys and values of nodes (L, 2, C, D).
        source: keys and values of source tokens, for the cross-attention (L, 2, T, D).
        table: of every node the slots of its ancestors and its own, by depth (C, depths).
        version: changes when a tensor has moved, so that what was recorded on the old ones is void.
    """

    def __init__(self, layers: int, width: int, device: torch.device, *, slots: int, sources: int, depths: int) -> None:
        self.slots, self.ranges = Space(slots), Ranges(sources)
        self.cache = torch.zeros(layers, 2, slots, width, device=device)
        self.source = torch.zeros(layers, 2, sources, width, device=device)
        self.table = torch.zeros(slots, depths, dtype=torch.int32, device=device)
        self.version = 0
        self._given_back: list[Numbers | int] = []  # a list, because appending needs no lock

    def take_slots(self, count: int, depth: int) -> Numbers:
        """Return slots for new nodes of at most this depth; grows where there are too few.

        Raises:
            MemoryError: if the kernels could not count so many.
        """
        self._collect()
        depths = self.table.shape[1]
        while depth >= depths:
            depths *= 2
        size = have = self.slots.size
        while self.slots.free + size - have < count:
            size *= 2
        if size > LARGEST:
            raise MemoryError("there is not enough memory for this batch; make it smaller")
        if (size, depths) != self.table.shape:
            # All or nothing: there may not be so much memory.
            cache = _grown(self.cache, 2, size) if size > have else self.cache
            self.table = _grown(_grown(self.table, 0, size), 1, depths)
            self.cache, self.version = cache, self.version + 1
            if size > have:
                self.slots.grow(size)
        return self.slots.take(count)

    def take_sources(self, count: int) -> int:
        """Return the start of a range for source tokens; grows where there is none."""
        self._collect()
        size = self.ranges.size
        while (start := self.ranges.find(count, size)) is None:
            size *= 2
        if size > self.ranges.size:
            self.source = _grown(self.source, 2, size)
            self.ranges.size, self.version = size, self.version + 1
        self.ranges.take(start, count)
        return start

    def give_back(self, what: Numbers | int) -> None:
        """Take back slots, or a range of sources by its start; waits for nobody, for a collector may call it."""
        self._given_back.append(what)

    def _collect(self) -> None:
        while self._given_back:
            what = self._given_back.pop()
            if isinstance(what, int):
                self.ranges.give(what)
            else:
                self.slots.give(what)


def _grown(tensor: Tensor, dimension: int, size: int) -> Tensor:
    shape = list(tensor.shape)
    have, shape[dimension] = shape[dimension], size
    grown = tensor.new_zeros(shape)
    grown.narrow(dimension, 0, have).copy_(tensor)
    return grown
