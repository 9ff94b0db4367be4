"""KV cache and ancestor paths of all sessions of a model, at fixed addresses as CUDA graphs need them.

Shapes: L decoder layers, C slots, D width, T source tokens.
"""

from bisect import insort

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers = NDArray[np.int32]
LARGEST = 1 << 22  # slots: kernels use 32-bit offsets within a layer


class Space:
    """Allocator of single slots. Slot 0 is never allocated: padding uses it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = np.arange(size - 1, 0, -1, dtype=np.int32)
        self.free = size - 1  # number of free slots, at the start of `_free`

    def take(self, count: int) -> Numbers:
        """Allocate `count` slots."""
        self.free -= count
        return self._free[self.free : self.free + count][::-1].copy()

    def give(self, numbers: Numbers) -> None:
        """Free slots."""
        self._free[self.free : self.free + len(numbers)] = numbers
        self.free += len(numbers)

    def grow(self, size: int) -> None:
        """Add slots up to a size."""
        free = np.empty(size - 1, dtype=np.int32)
        more = size - self.size
        free[:more] = np.arange(size - 1, self.size - 1, -1)
        free[more : more + self.free] = self._free[: self.free]
        self._free, self.free, self.size = free, self.free + more, size


class Ranges:
    """First-fit allocator of ranges of the numbers from 1 up to a size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._taken: list[tuple[int, int]] = []  # (start, stop), ascending

    def find(self, count: int, size: int) -> int | None:
        """Return the start of a free range of numbers below a size, or None if none is long enough."""
        start = 1
        for begin, stop in [*self._taken, (size, size)]:
            if begin - start >= count:
                return start
            start = stop
        return None

    def take(self, start: int, count: int) -> None:
        """Allocate a free range."""
        insort(self._taken, (start, start + count))

    def give(self, start: int) -> None:
        """Free a range."""
        self._taken = [taken for taken in self._taken if taken[0] != start]


class Pool:
    """KV cache tensors with their allocators."""

    def __init__(self, layers: int, width: int, device: torch.device, *, slots: int, sources: int, depths: int) -> None:
        self.slots, self.ranges = Space(slots), Ranges(sources)
        self.cache = torch.zeros(layers, 2, slots, width, device=device)  # of nodes
        self.source = torch.zeros(layers, 2, sources, width, device=device)  # of source tokens, for the cross-attention
        # Slots of every node's ancestors and itself, by depth (C, depths).
        self.table = torch.zeros(slots, depths, dtype=torch.int32, device=device)
        self.version = 0  # changes when a tensor is reallocated, which invalidates captured graphs
        self._given_back: list[Numbers | int] = []  # a list, because appending needs no lock

    def take_slots(self, count: int, depth: int) -> Numbers:
        """Allocate slots for new nodes of at most this depth; raises MemoryError beyond what kernels can address."""
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
            # Allocate everything before changing state: memory may run out.
            cache = _grown(self.cache, 2, size) if size > have else self.cache
            self.table = _grown(_grown(self.table, 0, size), 1, depths)
            self.cache, self.version = cache, self.version + 1
            if size > have:
                self.slots.grow(size)
        return self.slots.take(count)

    def take_sources(self, count: int) -> int:
        """Allocate a range for source tokens and return its start; grows the cache if needed."""
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
        """Free slots, or a source range by its start; never blocks, since the garbage collector may call it."""
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
