"""Runner in torch: any device, any precision; the reference for the other runners.

Its batches are padded: the nodes of all queries, right-padded, with an attention mask.

Shapes: B rows of the batch, one per query; N new nodes of the widest query; R new nodes; C slots in use; S source
tokens; L decoder layers; H heads (of a cache: those of a layer); d width of a head; D model width; V vocabulary; k
candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chemspec.data.arrays import pad
from chemspec.model.ancestors import AncestorMask, Mask
from chemspec.model.runner import Floats, Ints, MaskedBatch, NodeBatch, Runner
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
    def open(self, sources: Sequence[Sequence[int]], *, top_k: int, states: bool = False) -> Runner:
        """Encode the sources; see `Backend.open`."""
        memory, source_mask = self.model.encode(source_batch(self.model, sources).to(self.device))
        top_k = min(top_k, self.model.config.vocab_size)
        return TorchRunner(self, self.model.memory_cache(memory), source_mask, top_k, states)


class TorchRunner(Runner):
    """KV cache of one session as torch tensors; rows of finished queries stay while repacking, a copy, does not pay."""

    REPACK_BELOW = 0.75  # share of active rows below which the batch is repacked

    def __init__(
        self, backend: TorchBackend, memory_cache: Tensor, source_mask: Tensor, top_k: int, states: bool = False
    ) -> None:
        """Start an empty cache.

        `memory_cache` are keys and values of the cross-attention (L, 2, B, H, S, d); the source mask (B, 1, 1, S) is
        false at padding.
        """
        layers, _, queries, groups, _, width = memory_cache.shape
        self._width = queries  # rows of the batch
        self._rows = {query: query for query in range(queries)}  # row of each unfinished query
        self._ancestors = {query: AncestorMask() for query in range(queries)}
        self.backend = backend
        self.memory_cache, self.source_mask, self.top_k = memory_cache, source_mask, top_k
        self.keeps_states = states
        self.cache = memory_cache.new_zeros(layers, 2, queries, groups, 32, width)

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Compute new nodes; see `Runner.run`."""
        if len(self._rows) < self._width and len(self._rows) <= self.REPACK_BELOW * self._width:
            self.gather_rows(list(self._rows.values()))
            self._rows = {query: row for row, query in enumerate(self._rows)}
            self._width = len(self._rows)
        counts = Counter(nodes.queries)  # counts keep the order of the nodes
        width = max(counts.values(), default=0)
        slot_offsets = np.zeros(self._width, dtype=np.int64)
        for query, row in self._rows.items():
            slot_offsets[row] = self._ancestors[query].count
        used = int(slot_offsets.max())
        tokens, depths = np.zeros((2, self._width, width), dtype=np.int64)
        mask = np.zeros((self._width, width, used + width), dtype=np.bool_)
        # Padding attends to itself, or softmax would divide by 0.
        mask[:, np.arange(width), used + np.arange(width)] = True
        start = 0
        for query, count in counts.items():
            row, part = self._rows[query], slice(start, start + count)
            tokens[row, :count], depths[row, :count] = nodes.tokens[part], nodes.depths[part]
            slots = slot_offsets[row]
            attended = self._ancestors[query].add(nodes.parents[part])
            if isinstance(nodes, MaskedBatch):
                self._ancestors[query].count -= fill_blocks(attended[:, slots:], nodes.blocks[part])
            mask[row, :count, :slots] = attended[:, :slots]
            mask[row, :count, used : used + count] = attended[:, slots:]
            start += count
        self.reserve(used + width)
        # Keys and values of a Spec-Drafter's mask tokens lie past the slots in use; the next pass overwrites them.
        ids, log_probs = self.run_padded(tokens, depths, mask, slot_offsets)
        rows = np.repeat([self._rows[query] for query in counts], list(counts.values()))
        columns = np.concatenate([np.arange(count) for count in counts.values()])
        if self.hidden_states is not None:
            self.hidden_states = self.hidden_states[rows, columns]
        return ids[rows, columns], log_probs[rows, columns]

    def release(self, query: int) -> None:
        """Free the memory of a finished query; see `Runner.release`."""
        del self._rows[query], self._ancestors[query]

    def reserve(self, slots: int) -> None:
        """Grow the KV cache to at least `slots` slots."""
        have = self.cache.shape[4]
        if slots > have:
            grown = self.cache.new_zeros(*self.cache.shape[:4], max(slots, 2 * have), self.cache.shape[5])
            grown[:, :, :, :, :have] = self.cache
            self.cache = grown

    @torch.inference_mode()
    def run_padded(self, tokens: Ints, depths: Ints, attention_mask: Mask, slot_offsets: Ints) -> tuple[Ints, Floats]:
        """Run the forward pass, which caches keys and values, and sets `hidden_states` if requested.

        Returns the k best next tokens of every node and their log-probs, both (B, N, k). Tokens and depths are (B, N),
        right-padded; the mask (B, N, C + N) says which slots in use and new nodes each node attends to; `slot_offsets`
        (B,) are the slots of each query's first new node.
        """
        used = attention_mask.shape[2] - tokens.shape[1]
        states: list[Tensor] | None = [] if self.keeps_states else None
        inputs = self.to_device(tokens), self.to_device(depths), self.to_device(attention_mask)[:, None]
        cached = self.cache[:, :, :, :, :used], self.memory_cache, self.source_mask
        logits, new_kv = self.backend.model.step(*inputs, *cached, states)
        if states:
            self.hidden_states = states[0]
        columns = torch.arange(new_kv.shape[4], device=self.backend.device)
        rows = torch.arange(len(slot_offsets), device=self.backend.device)[:, None]
        write_kv(self.cache, new_kv, rows, self.to_device(slot_offsets)[:, None] + columns)
        return best_tokens(logits, self.top_k, self.backend.model.log_softmax)

    def to_device(self, array: NDArray[Any]) -> Tensor:
        """Copy an array to the model's device."""
        return torch.from_numpy(array).to(self.backend.device)

    @torch.inference_mode()
    def gather_rows(self, rows: Sequence[int]) -> None:
        """Keep these rows of the batch, in this order."""
        index = torch.tensor(rows, device=self.backend.device)
        self.cache = self.cache.index_select(2, index)
        self.memory_cache = self.memory_cache.index_select(2, index)
        self.source_mask = self.source_mask.index_select(0, index)

    @torch.inference_mode()  # a cache created in inference mode can only be written in that mode
    def compact(self, query: int, slots: Ints) -> None:
        """Move slots to the front; see `Runner.compact`."""
        self._ancestors[query].keep(slots)
        row, index = self._rows[query], self.to_device(slots)
        self.cache[:, :, row, :, : len(slots)] = self.cache[:, :, row].index_select(3, index)


def fill_blocks(mask: Mask, blocks: Sequence[int]) -> int:
    """Let the masks among new nodes attend to their whole blocks (`MaskedBatch`); returns the number of masks."""
    numbers = np.array(blocks)
    mask |= (numbers[:, None] == numbers) & (numbers >= 0)
    return int((numbers >= 0).sum())


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
    """Return ids and log-probs (2, ..., count) as `best_tokens`, by a full sort, which does not wait for the device."""
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
