"""Batches without padding: sequences end to end in arrays of one shape, which a CUDA graph can be recorded for.

The rest of the arrays are fillers: sequences with nothing to predict. Shapes: S source tokens and T target tokens of a
batch, R sequences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from chemspec.data.arrays import Pairs
from chemspec.tokenizer import BOS, EOS

MAX_TOKENS = 256  # tokens of a sequence, or of a filler
PATIENCE = 30  # pairs that wait for a next batch when one is closed
RESERVE = 8  # tokens of either side that are left to fillers: at least one for each
IGNORED = -100  # target of a filler


@dataclass(frozen=True)
class Shape:
    """Sizes of all batches."""

    sources: int = 40_448
    targets: int = 24_832
    sequences: int = 1024

    @classmethod
    def of(cls, parts: Sequence[Pairs], tokens: int = 0) -> Shape:
        """Return sizes in proportion to the tokens of some data, `tokens` in all (0: as many as by default)."""
        sources = sum(len(pairs.sources.flat) for pairs in parts)
        targets = sum(len(pairs.targets.flat) + len(pairs) for pairs in parts)
        both = tokens or cls.sources + cls.targets
        share = round(both * sources / (sources + targets) / 128) * 128 or both // 2
        return cls(share, both - share)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of the parts of a batch, in their order; see `split`."""
        return self.sources, self.sources, self.targets, self.targets, self.targets, *(2 * [self.sequences + 1])

    def split(self, batch: Tensor) -> list[Tensor]:
        """Split a batch: source ids and positions (S,), inputs, next tokens and positions (T,), two (R + 1,) ends."""
        return list(torch.split(batch, list(self.sizes)))


def pack(pairs: Pairs, order: Iterable[int], shape: Shape) -> Iterator[list[int]]:
    """Cut an order of pairs into batches that fit a shape; a pair that does not fit waits for a later batch.

    Raises ValueError for sequences that no batch can hold.
    """
    lengths = np.stack((pairs.sources.lengths, pairs.targets.lengths + 1)).T
    if lengths.max() > min(MAX_TOKENS, shape.sources - RESERVE, shape.targets - RESERVE):
        raise ValueError(f"the data has a sequence of {lengths.max()} tokens, which is too long for these batches")
    sizes = lengths.tolist()
    most = shape.sequences - RESERVE - max(shape.sources, shape.targets) // MAX_TOKENS  # the rest are fillers
    batch: list[int] = []
    waiting: list[int] = []
    sources, targets = shape.sources - RESERVE, shape.targets - RESERVE

    def is_added(index: int) -> bool:
        nonlocal sources, targets
        source, target = sizes[index]
        if source > sources or target > targets or len(batch) == most:
            return False
        sources, targets = sources - source, targets - target
        batch.append(index)
        return True

    def begin_batch() -> None:
        nonlocal batch, waiting, sources, targets
        batch, sources, targets = [], shape.sources - RESERVE, shape.targets - RESERVE
        waiting = [index for index in waiting if not is_added(index)]

    for index in order:
        if not is_added(index):
            waiting.append(index)
        if len(waiting) == PATIENCE:
            yield batch
            begin_batch()
    while batch:
        yield batch
        begin_batch()


def build_batch(pairs: Pairs, indices: Sequence[int], shape: Shape) -> Tensor:
    """Lay the pairs end to end; the rest of the arrays are fillers: sequences with nothing to predict."""
    chosen = np.asarray(indices)
    picked = pairs.pick(chosen)
    lengths = [picked.sources.lengths, picked.targets.lengths + 1]
    left = [size - int(side.sum()) for size, side in zip((shape.sources, shape.targets), lengths, strict=True)]
    fillers = max(math.ceil(count / MAX_TOKENS) for count in left)
    filled = [np.diff(np.linspace(0, count, fillers + 1).astype(int)) for count in left]
    lengths = [np.concatenate(both) for both in zip(lengths, filled, strict=True)]
    ends = [np.zeros(shape.sequences + 1, dtype=np.int32) for _ in lengths]
    positions = []
    for side, end in zip(lengths, ends, strict=True):
        end[1 : len(side) + 1] = np.cumsum(side)
        end[len(side) + 1 :] = end[len(side)]
        positions.append(np.arange(end[-1]) - np.repeat(end[: len(side)], side))
    source = np.full(shape.sources, EOS, dtype=np.int32)
    source[: len(picked.sources.flat)] = picked.sources.flat
    inputs = np.full(shape.targets, BOS, dtype=np.int32)
    following = np.full(shape.targets, IGNORED, dtype=np.int32)
    real = int(ends[1][len(chosen)])
    first = positions[1][:real] == 0
    inputs[:real][~first] = picked.targets.flat
    last = np.zeros(real, dtype=bool)
    last[ends[1][1 : len(chosen) + 1] - 1] = True
    following[:real][last] = EOS
    following[:real][~last] = picked.targets.flat
    parts = (source, positions[0], inputs, following, positions[1], *ends)
    return torch.from_numpy(np.concatenate(parts).astype(np.int32))


class Batches(IterableDataset):  # type: ignore[type-arg]
    """An endless stream of packed batches: all pairs in a new random order every epoch, shared out among workers."""

    def __init__(self, parts: Sequence[Pairs], shape: Shape, seed: int, skip: int = 0) -> None:
        """Stream all pairs of some data, without the first `skip` batches."""
        self.pairs = Pairs.join(parts)
        self.shape, self.seed, self.skip = shape, seed, skip

    def __iter__(self) -> Iterator[Tensor]:
        """Return the batches of this worker."""
        worker = torch.utils.data.get_worker_info()
        offset, step = (worker.id, worker.num_workers) if worker else (0, 1)
        orders = (np.random.default_rng((self.seed, epoch)).permutation(len(self.pairs)).tolist() for epoch in count())
        for number, indices in enumerate(pack(self.pairs, chain.from_iterable(orders), self.shape)):
            if number >= self.skip and (number - self.skip) % step == offset:
                yield build_batch(self.pairs, indices, self.shape)


def load_batches(parts: Sequence[Pairs], shape: Shape, seed: int, workers: int, skip: int = 0) -> Iterator[Tensor]:
    """Return the batches of some data, but the first `skip`; `workers` other processes make them."""
    options: dict[str, Any] = {"prefetch_factor": 16, "pin_memory": torch.cuda.is_available()} if workers else {}
    stream = Batches(parts, shape, seed, skip)
    # A generator of its own: a new iterator would otherwise change the dropout of the next steps.
    loader = DataLoader(stream, batch_size=None, num_workers=workers, generator=torch.Generator(), **options)
    return iter(loader)
