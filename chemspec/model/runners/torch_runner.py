"""The pass in torch: any device, any precision; the reference for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chemspec.data.arrays import pad
from chemspec.model.session import Floats, Ints
from chemspec.model.transformer import Transformer
from chemspec.tokenizer import BOS, EOS


def source_batch(model: Transformer, sources: Sequence[Sequence[int]]) -> Tensor:
    """Padded source ids (B, S), with bos and eos where the model was trained with them."""
    if model.config.source_specials:
        sources = [(BOS, *source, EOS) for source in sources]
    return pad(sources)


class TorchBackend:
    """A model on a device, in the precision it has been cast to."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.device = model.embedding.weight.device
        self.dtype = model.embedding.weight.dtype

    @torch.inference_mode()
    def open(
        self,
        sources: Sequence[Sequence[int]],
        *,
        top_k: int,
        heads: Sequence[tuple[int, int]] = (),
        states: bool = False,
    ) -> TorchRunner:
        memory, real = self.model.encode(source_batch(self.model, sources).to(self.device))
        kept = min(top_k, self.model.config.vocab_size)
        return self.runner(self, self.model.memory_cache(memory), real, kept, heads, states)

    @property
    def runner(self) -> type[TorchRunner]:
        """What keeps a session whose sources are encoded."""
        return TorchRunner


class TorchRunner:
    """Keys and values of one session as torch tensors."""

    flat: Literal[False] = False

    def __init__(
        self,
        backend: TorchBackend,
        memory: Tensor,
        real: Tensor,
        top_k: int,
        heads: Sequence[tuple[int, int]] = (),
        states: bool = False,
    ) -> None:
        self.backend = backend
        self.memory, self.real, self.top_k = memory, real, top_k
        self.heads = sorted(heads)
        self.looks: Floats | None = None
        self.keeps_states, self.states = states, memory.new_zeros(0)
        layers, _, queries, groups, _, width = memory.shape
        self.cache = memory.new_zeros(layers, 2, queries, groups, 32, width)

    def reserve(self, slots: int) -> None:
        have = self.cache.shape[4]
        if slots > have:
            grown = self.cache.new_zeros(*self.cache.shape[:4], max(slots, 2 * have), self.cache.shape[5])
            grown[:, :, :, :, :have] = self.cache
            self.cache = grown

    @torch.inference_mode()
    def run(self, tokens: Ints, depths: Ints, sees: NDArray[np.bool_], starts: Ints) -> tuple[Ints, Floats]:
        used = sees.shape[2] - tokens.shape[1]
        looks: list[Tensor] = []
        states: list[Tensor] | None = [] if self.keeps_states else None
        logits, fresh = self.backend.model.step(
            self.move(tokens),
            self.move(depths),
            self.move(sees)[:, None],
            self.cache[:, :, :, :, :used],
            self.memory,
            self.real,
            self.heads,
            looks,
            states,
        )
        if states:
            self.states = states[0]
        if looks:
            bos = self.backend.model.config.source_specials  # and eos, which nobody copies
            self.looks = torch.stack(looks, dim=2).float().cpu().numpy()[..., int(bos) :]
        self.write(fresh, starts)
        return best(logits, self.top_k)

    def move(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.backend.device)

    def write(self, fresh: Tensor, starts: Ints) -> tuple[Tensor, Tensor]:
        """Keep keys and values of new nodes (L, 2, B, H, N, d), all queries at once; returns rows (B, 1) and slots (B,
        N)."""
        ahead = torch.arange(fresh.shape[4], device=self.backend.device)
        rows = torch.arange(len(starts), device=self.backend.device)[:, None]
        slots = self.move(starts)[:, None] + ahead
        put(self.cache, fresh, rows, slots)
        return rows, slots

    @torch.inference_mode()
    def keep_queries(self, rows: Sequence[int]) -> None:
        index = torch.tensor(rows, device=self.backend.device)
        self.cache = self.cache.index_select(2, index)
        self.memory = self.memory.index_select(2, index)
        self.real = self.real.index_select(0, index)

    @torch.inference_mode()  # the cache may have been made in that mode, outside of which it cannot be written to
    def keep_slots(self, row: int, slots: Ints) -> None:
        index = self.move(slots)
        self.cache[:, :, row, :, : len(slots)] = self.cache[:, :, row].index_select(3, index)


def put(cache: Tensor, fresh: Tensor, rows: Tensor, slots: Tensor) -> None:
    """Write keys and values of new nodes (L, 2, B, H, N, d) to rows (B, 1) and slots (B, N) of a cache, in one
    operation."""
    cache[:, :, rows, :, slots] = fresh.permute(2, 4, 0, 1, 3, 5)


def best(logits: Tensor, count: int) -> tuple[Ints, Floats]:
    """The `count` best tokens and log-probs of logits (..., V), best first, ties by id; as arrays on the host."""
    if LARGE * count < logits.shape[-1]:
        found = _few(_log_probs(logits), count)
        if found is not None:
            return split_host(_one(*found))
    return split_host(ranked(logits, count))


def ranked(logits: Tensor, count: int) -> Tensor:
    """The same by sorting them all, on the device and without waiting for it: ids and log-probs, (2, ..., count)."""
    # A stable sort, because topk leaves the order of equal values open.
    ordered, ids = torch.sort(_log_probs(logits), dim=-1, descending=True, stable=True)
    return _one(ids[..., :count], ordered[..., :count])


def split_host(found: Tensor) -> tuple[Ints, Floats]:
    """Ids and log-probs (2, ...) as arrays, after one copy to the host."""
    ids, values = found.cpu().numpy()
    return ids.astype(np.int64), values


def _one(ids: Tensor, values: Tensor) -> Tensor:
    """One tensor for one copy: every id is a whole number that a float holds exactly (up to 2 ** 24)."""
    return torch.stack((ids.to(values.dtype), values))


def _log_probs(logits: Tensor) -> Tensor:
    precise = logits if logits.dtype == torch.float64 else logits.float()
    return torch.log_softmax(precise, dim=-1)


LARGE = 50  # times the tokens wanted: from so many on, to sort them all costs more than the pass


def _few(log_probs: Tensor, count: int) -> tuple[Tensor, Tensor] | None:
    """The `count` best without sorting all; none if a tie leaves open which they are."""
    values, ids = torch.topk(log_probs, count + 1, dim=-1)
    if bool((values[..., count - 1] == values[..., count]).any()):
        return None
    ids = ids[..., :count].sort(dim=-1).values
    ordered, places = torch.sort(log_probs.gather(-1, ids), dim=-1, descending=True, stable=True)
    return ids.gather(-1, places), ordered
