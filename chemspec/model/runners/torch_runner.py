"""Runner in torch: any device, any precision; the reference for the other runners.

Shapes: B queries, N new nodes, C slots in use, S source tokens, L decoder layers, H heads (of a cache: those of a
layer), d width of a head, D model width, V vocabulary, k candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chemspec.data.arrays import pad
from chemspec.model.runner import Finish, Floats, Ints
from chemspec.model.runners.padded import Mask, PaddedRunner
from chemspec.model.transformer import Transformer, log_softmax


def source_batch(model: Transformer, sources: Sequence[Sequence[int]]) -> Tensor:
    """Return padded source ids (B, S), with bos and eos if the model was trained with them."""
    return pad([model.config.encoder_ids(source) for source in sources])


class TorchBackend:
    """A model on a device, in the precision it has been cast to."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.device = model.embedding.weight.device
        self.dtype = model.embedding.weight.dtype

    @torch.inference_mode()
    def open(self, sources: Sequence[Sequence[int]], *, top_k: int, states: bool = False) -> TorchRunner:
        """Encode the sources; see `Backend.open`."""
        memory, source_mask = self.model.encode(source_batch(self.model, sources).to(self.device))
        top_k = min(top_k, self.model.config.vocab_size)
        return TorchRunner(self, self.model.memory_cache(memory), source_mask, top_k, states)


class TorchRunner(PaddedRunner):
    """KV cache of one session as torch tensors."""

    def __init__(
        self, backend: TorchBackend, memory: Tensor, source_mask: Tensor, top_k: int, states: bool = False
    ) -> None:
        """Start an empty cache, given the cross-attention's keys and values and the source mask (B, 1, 1, S)."""
        layers, _, queries, groups, _, width = memory.shape
        super().__init__(queries)
        self.backend = backend
        self.memory, self.source_mask, self.top_k = memory, source_mask, top_k
        self.keeps_states = states
        self.cache = memory.new_zeros(layers, 2, queries, groups, 32, width)

    def reserve(self, slots: int) -> None:
        """Grow the KV cache to at least `slots` slots."""
        have = self.cache.shape[4]
        if slots > have:
            grown = self.cache.new_zeros(*self.cache.shape[:4], max(slots, 2 * have), self.cache.shape[5])
            grown[:, :, :, :, :have] = self.cache
            self.cache = grown

    @torch.inference_mode()
    def begin_padded(self, tokens: Ints, depths: Ints, attention_mask: Mask, slot_offsets: Ints) -> Finish:
        """Compute new nodes; see `PaddedRunner.begin_padded`."""
        used = attention_mask.shape[2] - tokens.shape[1]
        states: list[Tensor] | None = [] if self.keeps_states else None
        inputs = self.to_device(tokens), self.to_device(depths), self.to_device(attention_mask)[:, None]
        cached = self.cache[:, :, :, :, :used], self.memory, self.source_mask
        logits, new_kv = self.backend.model.step(*inputs, *cached, states)
        if states:
            self.hidden_states = states[0]
        columns = torch.arange(new_kv.shape[4], device=self.backend.device)
        rows = torch.arange(len(slot_offsets), device=self.backend.device)[:, None]
        write_kv(self.cache, new_kv, rows, self.to_device(slot_offsets)[:, None] + columns)
        best = best_tokens(logits, self.top_k, self.backend.model.log_softmax)
        return lambda: best

    def to_device(self, array: NDArray[Any]) -> Tensor:
        """Copy an array to the model's device."""
        return torch.from_numpy(array).to(self.backend.device)

    @torch.inference_mode()
    def gather_rows(self, rows: Sequence[int]) -> None:
        """Keep these rows of the batch, in this order."""
        index = torch.tensor(rows, device=self.backend.device)
        self.cache = self.cache.index_select(2, index)
        self.memory = self.memory.index_select(2, index)
        self.source_mask = self.source_mask.index_select(0, index)

    @torch.inference_mode()  # a cache created in inference mode can only be written in that mode
    def gather_slots(self, row: int, slots: Ints) -> None:
        """Move these slots of a row to the front, in this order."""
        index = self.to_device(slots)
        self.cache[:, :, row, :, : len(slots)] = self.cache[:, :, row].index_select(3, index)


def write_kv(cache: Tensor, new_kv: Tensor, rows: Tensor, slots: Tensor) -> None:
    """Write keys and values of new nodes (L, 2, B, H, N, d) to rows (B, 1) and slots (B, N) of a cache."""
    cache[:, :, rows, :, slots] = new_kv.permute(2, 4, 0, 1, 3, 5)


LARGE_VOCABULARY = 50  # vocabulary per requested token from which a full sort costs more than the forward pass


def best_tokens(logits: Tensor, count: int, softmax: Callable[[Tensor], Tensor] = log_softmax) -> tuple[Ints, Floats]:
    """Return the `count` best tokens and log-probs of logits (..., V), best first, ties by id, as host arrays."""
    if LARGE_VOCABULARY * count < logits.shape[-1]:
        log_probs = softmax(logits)
        values, ids = torch.topk(log_probs, count + 1, dim=-1)
        if not bool((values[..., count - 1] == values[..., count]).any()):  # ties make the last one ambiguous
            ids = ids[..., :count].sort(dim=-1).values
            ordered, order = torch.sort(log_probs.gather(-1, ids), dim=-1, descending=True, stable=True)
            return copy_to_host(_stack_for_transfer(ids.gather(-1, order), ordered))
    return copy_to_host(sorted_tokens(logits, count, softmax))


def sorted_tokens(logits: Tensor, count: int, softmax: Callable[[Tensor], Tensor] = log_softmax) -> Tensor:
    """Return the same by a full sort, without synchronising with the device: ids and log-probs (2, ..., count)."""
    # A stable sort, because topk does not define the order of equal values.
    ordered, ids = torch.sort(softmax(logits), dim=-1, descending=True, stable=True)
    return _stack_for_transfer(ids[..., :count], ordered[..., :count])


def copy_to_host(packed: Tensor) -> tuple[Ints, Floats]:
    """Copy ids and log-probs (2, ...) to the host in one transfer."""
    ids, log_probs = packed.cpu().numpy()
    return ids.astype(np.int64), log_probs


def _stack_for_transfer(ids: Tensor, values: Tensor) -> Tensor:
    """Stack ids and log-probs for one transfer: ids up to 2 ** 24 are exact as floats."""
    return torch.stack((ids.to(values.dtype), values))
