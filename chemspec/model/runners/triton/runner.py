"""Backend and runner of the Triton kernels: flat lists of nodes, a table of ancestor slots, one launch per pass.

Nothing is padded between queries and nothing is masked: a node reads its ancestors' slots from the table, and a query's
source from its start and length. A pass is padded to one of a few sizes, and captured as a CUDA graph that includes the
copies to and from the host.

Shapes: R rows of a pass, D width, V vocabulary, k candidates, L decoder layers.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chemspec.model.probe import UnsupportedError as UnsupportedError
from chemspec.model.runner import SPARSE, Finish, Floats, Ints, NodeBatch, Runner
from chemspec.model.runners.cuda_graphs import CudaGraphs, Function, Recorded, Recorder, record_event
from chemspec.model.runners.triton.pool import Numbers, Pool
from chemspec.model.runners.triton.weights import Layer, Weights, pack_weights
from chemspec.model.transformer import Transformer

DTYPES = ("fp32", "bf16")
SIZES = (1, 4, 16, *(1 << power for power in range(6, 15)))  # rows of captured passes; larger ones are not captured
KEPT = 64  # cached kinds of passes, by rows and candidates; the least recently used is dropped
# Initial sizes of the pool, which grows by doubling; the graphs are then captured again.
SLOTS, SOURCES, DEPTHS = 1 << 15, 1 << 13, 256
# Input columns of a row of the decoder, and of the encoder.
TOKEN, DEPTH, SLOT, PARENT, BASE, START, COUNT, KEYS = range(8)


def padded_rows(count: int) -> int:
    """Return the padded size of a pass of `count` rows."""
    return next((size for size in SIZES if size >= count), count)


class TritonBackend:
    """Weights and KV caches of a model on a GPU; safe to share between threads, which run one at a time.

    The model is in fp32, on the CPU; products are in fp32 or bf16, both bitwise batch-invariant. Raises
    UnsupportedError if Triton is missing, or the kernels do not support this architecture.
    """

    def __init__(
        self,
        model: Transformer,
        device: torch.device,
        *,
        dtype: str = "fp32",
        operations: ModuleType | None = None,
        record: Recorder | None = None,
    ) -> None:
        config = model.config
        if dtype not in DTYPES:
            raise UnsupportedError(f"the kernels compute in {' or '.join(DTYPES)}, not in {dtype}")
        if any(size % 32 for size in (config.d_model, config.inner_width, config.feedforward)):
            width = f"{config.d_model} features, {config.heads} heads in {config.inner_width}"
            raise UnsupportedError(f"the kernels need widths that are multiples of 32, not {width}")
        if operations is None:
            try:
                operations = import_module("chemspec.model.runners.triton.kernels")
            except ImportError as error:
                raise UnsupportedError(f"Triton cannot be imported ({error}); pip install 'chemspec[gpu]'") from error
        self.operations, self.record = operations, record or (CudaGraphs() if device.type == "cuda" else None)
        self.config, self.device, self.dtype = config, device, dtype
        self.weights: Weights = pack_weights(model, device, dtype=dtype)
        self.computing = RLock()
        self.overlaps = device.type == "cuda"
        slots, sources, depths = (SLOTS, SOURCES, min(DEPTHS, config.max_positions)) if self.overlaps else (64, 64, 8)
        self.pool = Pool(config.decoder_layers, config.inner_width, device, slots=slots, sources=sources, depths=depths)
        self._passes: dict[Any, list[RecordedPass]] = {}  # idle passes by size
        self._encoding: RecordedPass | None = None  # the most recent one

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int, states: bool = False) -> TritonRunner:
        """Encode the sources; see `Backend.open`."""
        runner = TritonRunner(self, min(top_k, self.config.vocab_size), states)
        runner.join(sources)
        return runner

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[Numbers, Numbers]:
        """Encode sources (prefill) into a range of the pool; returns the start and length of each source there."""
        sources = [self.config.encoder_ids(source) for source in sources]
        lengths = np.array([len(source) for source in sources], dtype=np.int32)
        with self.computing, torch.inference_mode():
            begin, first = self.pool.take_sources(max(1, int(lengths.sum()))), 0
            starts = (begin + np.cumsum(lengths) - lengths).astype(np.int32)
            while first < len(sources):  # as many sources at once as fit the largest captured pass
                last = first + 1
                while last < len(sources) and lengths[first : last + 1].sum() <= SIZES[-1]:
                    last += 1
                self._encode_batch(sources[first:last], lengths[first:last], int(starts[first]))
                first = last
        return starts, lengths

    def _encode_batch(self, sources: Sequence[Sequence[int]], lengths: Numbers, begin: int) -> None:
        count = int(lengths.sum())
        columns = np.zeros((8, padded_rows(count)), dtype=np.int32)
        columns[TOKEN, :count] = np.fromiter((token for source in sources for token in source), dtype=np.int32)
        firsts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        columns[DEPTH, :count] = np.arange(count) - firsts
        columns[SLOT, :count] = begin + np.arange(count)
        columns[PARENT] = np.arange(columns.shape[1])  # the row itself, where its keys and values lie in this pass
        columns[START, :count] = firsts
        columns[COUNT] = 1
        columns[COUNT, :count] = np.repeat(lengths, lengths)
        # Later work on the stream runs after it; only its buffers must not be refilled before it has finished.
        if self._encoding is not None:
            self._encoding.wait()
            self._encoding.give_back()
        self._encoding = self.start(("encode", columns.shape[1]), columns, lambda: EncoderPass(self, columns.shape[1]))

    def start(self, key: Any, columns: Numbers, make: Callable[[], RecordedPass]) -> RecordedPass:
        """Launch the pass with this key on these rows; its graph is captured when it comes again.

        The pass is reserved until it is given back: two passes of one size may be in flight at once.
        """
        key, free = (self.pool.version, *key), None
        if columns.shape[1] in SIZES:
            free = self._passes.pop(key, None)
            if free is None:
                current = [old for old in self._passes.items() if old[0][0] == self.pool.version]
                self._passes, free = dict(current[-KEPT + 1 :]), []
            self._passes[key] = free  # most recently used last
        reserved = free.pop() if free else make()
        reserved.home = free
        reserved.start(columns, self.record)
        return reserved


class RecordedPass(Recorded):
    """A forward pass of one size: inputs and outputs at fixed addresses, the computation, and its CUDA graph."""

    def __init__(self, backend: TritonBackend, rows: int) -> None:
        config, device = backend.config, backend.device
        self.backend, self.operations, self.weights = backend, backend.operations, backend.weights
        self.host = torch.zeros(8, rows, dtype=torch.int32, pin_memory=device.type == "cuda")
        self.inputs = torch.zeros(8, rows, dtype=torch.int32, device=device)
        width = config.d_model
        self.x = torch.zeros(rows, width, device=device)
        self.q, self.y = (torch.zeros(rows, config.inner_width, device=device) for _ in range(2))
        self.inner = torch.zeros(rows, config.feedforward, device=device)
        self.halves = torch.zeros(rows, 2 * config.feedforward, device=device) if config.gated else self.inner
        slices = self.weights.stacks[1][0].down.slices
        self.parts = torch.zeros(slices if slices > 1 else 0, rows, width, device=device)
        self.wait: Function = lambda: None  # until results are on the host; `give_back` after reading them
        self.home: list[RecordedPass] | None = None

    def start(self, columns: Numbers, record: Recorder | None) -> None:
        """Copy the rows (8, R) to the device and launch the computation."""
        self.host.copy_(torch.from_numpy(columns))
        with torch.cuda.device(self.inputs.device) if self.inputs.is_cuda else nullcontext():
            self.repeat(self.inputs.device, record)
        self.wait = record_event(self.inputs.device)

    def give_back(self) -> None:
        """Make the pass available for reuse."""
        if self.home is not None:
            self.home.append(self)

    def embed(self, target: bool) -> None:
        """Embed the tokens, with the norm before the first layer if there is one."""
        inputs, weights = self.inputs, self.weights
        self.operations.embed(inputs[TOKEN], inputs[DEPTH], weights.tables[target], weights.positions[target], self.x)
        if (norm := weights.embedding_norms[target]) is not None:
            self.operations.add_norm(self.x, self.x, parts=None, bias=norm.shift, norm=norm)

    def attend(
        self,
        layer: Layer,
        cache: Tensor,
        slots: Tensor,
        starts: Tensor,
        counts: Tensor,
        *,
        target: bool,
        table: Tensor | None = None,
    ) -> None:
        """Run the self-attention sub-layer; the rows' keys and values are written to their slots of the cache first."""
        operations, bias, heads = self.operations, self.weights.distances[target], self.backend.config.heads
        relative = {} if bias is None else {"positions": self.inputs[DEPTH], "bias": bias}
        operations.linear(self.x, layer.qkv, self.q, norm=self.before(layer, 0), cache=cache, slots=slots)
        operations.attend(self.q, cache, starts, counts, self.y, heads=heads, table=table, **relative)
        operations.linear(self.y, layer.out, self.x, add=True)
        self.after(layer, 0)

    def feed(self, layer: Layer) -> None:
        """Run the feed-forward sub-layer, with the norm after it in a post-norm model."""
        norm, operations, config = layer.norms[-1], self.operations, self.backend.config
        before, activation = norm if config.norm_first else None, config.activation
        operations.linear(self.x, layer.up, self.halves, norm=before, activation="" if config.gated else activation)
        if config.gated:
            operations.gate(self.halves, self.inner, activation=activation)
        after = None if config.norm_first else norm
        if layer.down.slices > 1:
            operations.linear(self.inner, layer.down, self.parts)
            operations.add_norm(self.x, self.x, parts=self.parts, bias=layer.down.bias, norm=after)
        else:
            operations.linear(self.inner, layer.down, self.x, add=True)
            self.after(layer, -1)

    def after(self, layer: Layer, which: int) -> None:
        """Apply the norm after a sub-layer of a post-norm model."""
        if not self.backend.config.norm_first:
            self.operations.add_norm(self.x, self.x, parts=None, bias=layer.out.bias, norm=layer.norms[which])

    def before(self, layer: Layer, which: int) -> Any:
        """Return the norm before a sub-layer of a pre-norm model, else None."""
        return layer.norms[which] if self.backend.config.norm_first else None


class EncoderPass(RecordedPass):
    """Prefill: source tokens to the cross-attention's keys and values in every decoder layer."""

    def __init__(self, backend: TritonBackend, rows: int) -> None:
        super().__init__(backend, rows)
        self.scratch = torch.zeros(2, rows, backend.config.inner_width, device=backend.device)

    def compute(self) -> None:
        """Run the encoder."""
        self.inputs.copy_(self.host, non_blocking=True)
        inputs, weights, operations = self.inputs, self.weights, self.operations
        self.embed(False)
        for layer in weights.stacks[0]:
            self.attend(layer, self.scratch, inputs[PARENT], inputs[START], inputs[COUNT], target=False)
            self.feed(layer)
        for matrix, cache in zip(weights.memory, self.backend.pool.source, strict=True):
            operations.linear(self.x, matrix, self.q, norm=weights.last[0], cache=cache, slots=inputs[SLOT])


class DecoderPass(RecordedPass):
    """Forward pass of new nodes to their best next tokens."""

    def __init__(self, backend: TritonBackend, rows: int, top_k: int, states: bool) -> None:
        """Allocate inputs and buffers for R rows and k candidates; `states`: whether to return last hidden states."""
        super().__init__(backend, rows)
        device, pinned = backend.device, backend.device.type == "cuda"
        self.logits = torch.zeros(rows, backend.config.vocab_size, device=device)
        self.best = torch.zeros(rows, top_k, dtype=torch.int32, device=device), torch.zeros(rows, top_k, device=device)
        self.results = tuple(torch.zeros(rows, top_k, dtype=best.dtype, pin_memory=pinned) for best in self.best)
        self.states = torch.zeros_like(self.x) if states else None

    def compute(self) -> None:
        """Run the decoder."""
        self.inputs.copy_(self.host, non_blocking=True)
        inputs, weights, operations, pool = self.inputs, self.weights, self.operations, self.backend.pool
        heads = self.backend.config.heads
        self.embed(True)
        operations.write_paths(inputs[DEPTH], inputs[SLOT], inputs[PARENT], inputs[BASE], pool.table)
        for index, layer in enumerate(weights.stacks[1]):
            assert layer.cross is not None and layer.cross_out is not None
            cache, source = pool.cache[index], pool.source[index]
            self.attend(layer, cache, inputs[SLOT], inputs[SLOT], inputs[KEYS], target=True, table=pool.table)
            operations.linear(self.x, layer.cross, self.q, norm=self.before(layer, 1))
            operations.attend(self.q, source, inputs[START], inputs[COUNT], self.y, heads=heads)
            operations.linear(self.y, layer.cross_out, self.x, add=True)
            self.after(layer, 1)
            self.feed(layer)
        last = weights.last[1]
        if self.states is not None:
            operations.add_norm(self.x, self.states, parts=None, bias=weights.output.bias, norm=last)
        operations.linear(self.x, weights.output, self.logits, norm=last)
        if weights.forced is not None:
            torch.where((inputs[DEPTH] == 0)[:, None], weights.forced, self.logits, out=self.logits)
        operations.best_tokens(self.logits, *self.best)
        for result, best in zip(self.results, self.best, strict=True):
            result.copy_(best, non_blocking=True)


@dataclass
class _Held:
    """A session's share of the pool."""

    counts: Ints  # nodes of each query
    slots: Numbers  # their slots in order, (queries, maximum number of nodes)
    ranges: dict[int, int] = field(default_factory=dict)  # unfinished queries of each range of sources, by its start


class TritonRunner(Runner):
    """Runner of one session, which maps its queries' nodes to slots of the pool."""

    compaction_threshold = SPARSE
    can_join = True

    def __init__(self, backend: TritonBackend, top_k: int, states: bool) -> None:
        self.backend, self.top_k = backend, top_k
        self._keeps_states = states
        # Start and number of each query's source tokens in the pool, with bos and eos if the model reads them.
        self._starts = self._lengths = np.zeros(0, dtype=np.int32)
        self._held = _Held(np.zeros(0, dtype=np.int64), np.zeros((0, 32), dtype=np.int32))
        self._range_of: list[int] = []  # source range of each query; queries that joined together share one
        weakref.finalize(self, _free_session, backend.pool, self._held).atexit = False

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sources; see `Runner.join`."""
        if not sources:
            return
        starts, lengths = self.backend.encode(sources)
        self._starts, self._lengths = np.append(self._starts, starts), np.append(self._lengths, lengths)
        held, begin = self._held, int(starts[0])
        held.ranges[begin] = len(sources)
        self._range_of += [begin] * len(sources)
        held.counts = np.append(held.counts, np.zeros(len(sources), dtype=np.int64))
        held.slots = np.pad(held.slots, ((0, len(sources)), (0, 0)))

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Compute new nodes; see `Runner.run`."""
        return self.start(nodes)()

    @torch.inference_mode()
    def start(self, nodes: NodeBatch) -> Finish:
        """Launch the forward pass of new nodes; see `Runner.start`."""
        assert not nodes.blocks, "a Spec-Drafter's network runs in torch here"
        count = len(nodes.tokens)
        queries, parents = np.array(nodes.queries), np.array(nodes.parents)
        old = self._held.counts[queries]  # number of earlier nodes of each node's query
        begins = np.flatnonzero(np.diff(queries, prepend=-1))
        firsts = np.repeat(begins, np.diff(np.append(begins, count)))  # row of the first new node of each node's query
        columns = np.zeros((8, padded_rows(count)), dtype=np.int32)
        columns[DEPTH, :count] = nodes.depths
        with self.backend.computing:
            pool = self.backend.pool
            taken = pool.take_slots(count, int(columns[DEPTH].max()))
            columns[TOKEN, :count], columns[SLOT, :count] = nodes.tokens, taken
            columns[PARENT:START] = -1
            columns[PARENT, :count] = np.where(parents >= old, firsts + parents - old, -1)
            olds = (parents >= 0) & (parents < old)
            columns[BASE, :count][olds] = self._held.slots[queries[olds], parents[olds]]
            columns[START, :count], columns[COUNT] = self._starts[queries], 1
            columns[COUNT, :count] = self._lengths[queries]
            columns[KEYS] = columns[DEPTH] + 1
            self._add_slots(queries, old + np.arange(count) - firsts, taken)
            key = (columns.shape[1], self.top_k, self._keeps_states)
            launched = self.backend.start(key, columns, lambda: DecoderPass(self.backend, *key))
        assert isinstance(launched, DecoderPass)
        return partial(self._finish, launched, count)

    @torch.inference_mode()
    def _finish(self, launched: DecoderPass, count: int) -> tuple[Ints, Floats]:
        launched.wait()
        if launched.states is not None:
            # In the precision of the networks that read them; a copy, because the next pass overwrites them.
            kind = torch.bfloat16 if self.backend.dtype == "bf16" else torch.float32
            self.hidden_states = launched.states[:count].to(kind, copy=True)
        ids, log_probs = (result[:count].numpy().copy() for result in launched.results)
        launched.give_back()
        return ids.astype(np.int64), log_probs

    def _add_slots(self, queries: Ints, indices: Ints, slots: Numbers) -> None:
        held, needed = self._held, int(indices.max()) + 1
        have = held.slots.shape[1]
        if needed > have:
            held.slots = np.pad(held.slots, ((0, 0), (0, 2 * needed - have)))
        held.slots[queries, indices] = slots
        np.add.at(held.counts, queries, 1)

    def release(self, query: int) -> None:
        """Free the memory of a finished query; see `Runner.release`."""
        self.compact(query, np.zeros(0, dtype=np.int64))
        ranges, begin = self._held.ranges, self._range_of[query]
        ranges[begin] -= 1
        if not ranges[begin]:
            del ranges[begin]
            self.backend.pool.give_back(begin)

    def compact(self, query: int, slots: Ints) -> None:
        """Return all but these slots of a query to the pool; see `Runner.compact`."""
        held = self._held
        held_slots = held.slots[query, : held.counts[query]].copy()
        held.slots[query, : len(slots)] = held_slots[slots]
        held.counts[query] = len(slots)
        self.backend.pool.give_back(np.delete(held_slots, slots))


def _free_session(pool: Pool, held: _Held) -> None:
    """Return everything that a garbage-collected session held to the pool."""
    pool.give_back(held.slots[np.arange(held.slots.shape[1]) < held.counts[:, None]])
    for begin in held.ranges:
        pool.give_back(begin)
