"""Token arrays on disk, and batches of similar lengths; needs neither RDKit nor text.

Shapes: R reactions, B reactions of one batch, S source tokens, T target tokens.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Sampler

from chemspec.system.files import open_atomic
from chemspec.tokenizer import BOS, EOS, PAD, Tokenizer

Ids = NDArray[np.uint16]
Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class RaggedArray:
    """Concatenated sequences of token ids; sequence i is `flat[offsets[i] : offsets[i + 1]]`."""

    flat: Ids
    offsets: NDArray[np.int64]

    @classmethod
    def pack(cls, sequences: Sequence[Sequence[int]]) -> RaggedArray:
        """Concatenate sequences of ids."""
        lengths = [len(sequence) for sequence in sequences]
        flat = np.fromiter((token for sequence in sequences for token in sequence), dtype=np.uint16, count=sum(lengths))
        return cls(flat, np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ids:
        return self.flat[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each sequence."""
        return np.diff(self.offsets)

    def padded(self, indices: Sequence[int], *, specials: bool) -> torch.Tensor:
        """Return these sequences right-padded, between bos and eos with `specials`; (B, T) int64."""
        index_array = np.asarray(indices, dtype=np.int64)
        starts, edge = self.offsets[index_array], int(specials)
        lengths = self.offsets[index_array + 1] - starts
        out = np.full((len(index_array), int(lengths.max(initial=0)) + 2 * edge), PAD, dtype=np.int64)
        rows = np.repeat(np.arange(len(index_array)), lengths)
        columns = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        out[rows, columns + edge] = self.flat[np.repeat(starts, lengths) + columns]
        if specials:
            out[:, 0] = BOS
            out[np.arange(len(index_array)), lengths + 1] = EOS
        return torch.from_numpy(out)

    def pick(self, indices: NDArray[np.int64]) -> RaggedArray:
        """Return the sequences with these indices."""
        starts, lengths = self.offsets[indices], self.lengths[indices]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        return RaggedArray(self.flat[np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)], offsets)

    @classmethod
    def join(cls, parts: Sequence[RaggedArray]) -> RaggedArray:
        """Return the sequences of all parts, one after another."""
        lengths = np.concatenate([part.lengths for part in parts])
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        return cls(np.concatenate([part.flat for part in parts]), offsets)


@dataclass(frozen=True)
class Pairs:
    """Tokenised reactions: sources and targets, without special tokens."""

    sources: RaggedArray
    targets: RaggedArray

    def __len__(self) -> int:
        return len(self.sources)

    def part(self, start: int, stop: int) -> Pairs:
        """Return the pairs from `start` up to `stop`."""
        return self.pick(np.arange(start, min(stop, len(self))))

    def pick(self, indices: NDArray[np.int64]) -> Pairs:
        """Return the pairs with these indices."""
        return Pairs(self.sources.pick(indices), self.targets.pick(indices))

    @classmethod
    def join(cls, parts: Sequence[Pairs]) -> Pairs:
        """Return the pairs of all parts, one after another."""
        return cls(*(RaggedArray.join([getattr(part, side) for part in parts]) for side in ("sources", "targets")))

    def save(self, path: Path) -> None:
        """Write one compressed `.npz`, atomically."""
        with open_atomic(path) as file:
            np.savez_compressed(
                file,
                sources=self.sources.flat,
                source_offsets=self.sources.offsets,
                targets=self.targets.flat,
                target_offsets=self.targets.offsets,
            )

    @classmethod
    def load(cls, path: Path) -> Pairs:
        """Load a file written by `save`; raises ValueError naming the file, if it is damaged or of another kind."""
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                pairs = cls(
                    RaggedArray(file["sources"], file["source_offsets"]),
                    RaggedArray(file["targets"], file["target_offsets"]),
                )
        except (KeyError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{path} is not a file of prepared reactions: {error}") from error
        if len(pairs.sources) != len(pairs.targets):
            raise ValueError(f"{path} is damaged: {len(pairs.sources)} sources, {len(pairs.targets)} targets")
        return pairs

    def batch(self, indices: Sequence[int], *, source_specials: bool = False) -> Batch:
        """Return right-padded sources (B, S) and `<bos> target <eos>` (B, T + 2) as int64 tensors."""
        return self.sources.padded(indices, specials=source_specials), self.targets.padded(indices, specials=True)


def check_data(data: Path, remedy: str) -> None:
    """Raise FileNotFoundError, which ends with the remedy, for a folder without training data."""
    for name in ("train.npz", "vocab.json"):
        if not (data / name).is_file():
            raise FileNotFoundError(f"{data / name} is missing; {remedy}")


def check_vocabulary(data: Path, model: str, tokens: Sequence[str], merges: Sequence[tuple[str, str]]) -> None:
    """Raise FileNotFoundError without training data, ValueError for other tokens than the model's first, or merges."""
    check_data(data, "prepare it with `chemspec data --vocab`, and give the folder with --data")
    given = Tokenizer.load(data / "vocab.json")
    if given.tokens != tuple(tokens[: len(given)]) or given.merges != tuple(merges):
        raise ValueError(f"{data} has another vocabulary than model {model}; prepare it with `chemspec data --vocab`")


def split_validation(data: Path, holdout: int) -> tuple[Pairs, Pairs]:
    """Return training pairs and validation pairs: `val.npz`, or else the last `holdout` training pairs."""
    pairs = Pairs.load(data / "train.npz")
    if (data / "val.npz").exists():
        return pairs, Pairs.load(data / "val.npz")
    if holdout < 1:
        raise ValueError(f"{data} has no val.npz, so holdout must be at least 1, not {holdout}")
    if len(pairs) <= holdout:
        few = f"{data / 'train.npz'} has {len(pairs)} pairs, too few to hold out {holdout}"
        raise ValueError(f"{few}; name validation_files in the recipe (training can take a smaller holdout instead)")
    cut = len(pairs) - holdout
    return pairs.part(0, cut), pairs.part(cut, len(pairs))


def pad(sequences: Sequence[Sequence[int]]) -> torch.Tensor:
    """Return sequences of ids right-padded to the longest; (B, T) int64."""
    out = np.full((len(sequences), max(map(len, sequences))), PAD, dtype=np.int64)
    for row, sequence in zip(out, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(out)


class TokenBatches(Sampler[list[int]]):
    """An endless stream of batches of reactions of similar lengths, at most `tokens` padded tokens each.

    A longer reaction forms a batch alone.

    Every epoch, reactions are shuffled, cut into pools, sorted by length within a pool and cut into batches, and the
    batches are shuffled. The n-th batch depends on the seed and n only, so that a run that stopped after n steps can be
    resumed exactly with `skip=n`.
    """

    POOL = 100  # batches sorted together: enough for little padding, few enough that batches stay random

    def __init__(self, pairs: Pairs, *, tokens: int, seed: int, skip: int = 0, source_specials: bool = False) -> None:
        if not len(pairs):
            raise ValueError("there are no reactions to batch")
        self.source_lengths = pairs.sources.lengths + (2 if source_specials else 0)
        self.target_lengths = pairs.targets.lengths + 2
        self.tokens = tokens
        self.seed = seed
        self.skip = skip

    def __iter__(self) -> Iterator[list[int]]:
        skip = self.skip
        for epoch in count():
            batches = self.epoch(epoch)
            yield from batches[skip:]
            skip = max(0, skip - len(batches))

    def epoch(self, number: int) -> list[list[int]]:
        """Return the batches of one epoch: every reaction once."""
        rng = np.random.default_rng((self.seed, number))
        order = rng.permutation(len(self.source_lengths))
        mean = float((self.source_lengths + self.target_lengths).mean())
        pool = max(1, int(self.POOL * self.tokens / mean))
        batches = [
            batch for start in range(0, len(order), pool) for batch in self._cut_batches(order[start : start + pool])
        ]
        return [batches[index] for index in rng.permutation(len(batches))]

    def _sort_by_lengths(self, pool: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sort the pool so that neighbours have similar lengths: strips of similar targets, sorted by source.

        Sorting by target only, a third of every forward batch is padding, since reagents lengthen sources (log.md).
        """
        by_target = pool[np.argsort(self.target_lengths[pool], kind="stable")]
        batches = float((self.source_lengths + self.target_lengths)[pool].sum()) / self.tokens
        strips = np.array_split(by_target, max(1, round(math.sqrt(batches))))
        return np.concatenate([strip[np.argsort(self.source_lengths[strip], kind="stable")] for strip in strips])

    def _cut_batches(self, pool: NDArray[np.int64]) -> list[list[int]]:
        batches: list[list[int]] = []
        source = target = 0
        for index in self._sort_by_lengths(pool).tolist():
            lengths = int(self.source_lengths[index]), int(self.target_lengths[index])
            wider = max(source, lengths[0]), max(target, lengths[1])
            if batches and sum(wider) * (len(batches[-1]) + 1) <= self.tokens:
                batches[-1].append(index)
                source, target = wider
            else:
                batches.append([index])
                source, target = lengths
        return batches
