"""Runner in torch with CUDA graphs: one launch for some two hundred small kernels, and one copy to the host.

A CUDA graph computes on fixed addresses and shapes. So the KV cache of a session lies in an `Arena`, which later
sessions reuse, and a pass is padded to the next of a few sizes, each captured once: the usual ones at loading, so that
no query waits for a recording. A pass of 64 nodes takes about as long as one of a single node, so all up to there have
one size; then drafted and undrafted passes also run the same kernels.

Shapes: B rows of the arena, N nodes of the padded pass, C slots of the arena, S source tokens, D model width, k
candidates.
"""

from __future__ import annotations

import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chemspec.model.runner import Floats, Ints
from chemspec.model.runners.torch_runner import Mask, TorchBackend, TorchRunner, sorted_tokens, source_batch, write_kv
from chemspec.model.transformer import Transformer
from chemspec.tokenizer import BOS, PAD

Function = Callable[[], None]
Recorder = Callable[[Function, torch.device], Function]

# The nodes of all rows together are padded to this number, then those of a row to powers of two; sources to multiples,
# and candidates to powers of two from this number on.
NODES, SOURCE, CANDIDATES = 64, 64, 64
SLOTS = 64  # of a larger arena: multiples of this
COMMON = ((1, (1,)), (64, (1, 8, 16)))  # rows of the arenas, and nodes of the passes, that are recorded at loading
COMMON_SOURCES = (64, 128)  # their sources
FIRST_SLOTS = 256  # initial slots of an arena, which double when a session outgrows it
# Share of a GPU's memory for idle arenas. Their graphs are freed with them, and capturing one takes as long as some
# hundred passes; limited by bytes, not by number, since a shrinking batch goes through a dozen shapes.
IDLE_SHARE = 0.25


def padded_nodes(count: int, rows: int) -> int:
    """Return the nodes per row of the pass that computes `count` of them: together at least `NODES`, a power of two."""
    return max(1 << max(0, count - 1).bit_length(), NODES // rows, 1)


def padded_candidates(count: int, vocab_size: int) -> int:
    """Return the candidates of the pass that returns `count` of them: a power of two, or the whole vocabulary."""
    return min(max(CANDIDATES, 1 << max(0, count - 1).bit_length()), vocab_size)


def rows_for(count: int) -> int:
    """Round a number of queries up to a power of two or 1.5 times one; at least 1."""
    power = 1 << max(0, count - 1).bit_length()
    return 3 * power // 4 if power > 2 and count <= 3 * power // 4 else power


def round_up(count: int, step: int) -> int:
    """Round up to a multiple of `step`."""
    return -(-count // step) * step


RECORDING = Lock()  # torch captures one graph at a time per process


class CudaGraphs:
    """Captures CUDA graphs on one device; they share a memory pool, so they must run one at a time."""

    def __init__(self) -> None:
        self.stream: Any = None  # of this device: torch's default capture stream is on the device used first
        self.pool: Any = None
        self.pool_anchor: Any = None  # a graph that is never freed: it keeps the memory pool alive

    def __call__(self, function: Function, device: torch.device) -> Function:
        """Run a function twice on a side stream and then capture it; returns the replay function."""
        with RECORDING, torch.cuda.device(device):
            here = torch.cuda.current_stream()
            self.stream = self.stream or torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self.stream.wait_stream(here)
            with torch.cuda.stream(self.stream):
                for _ in range(2):
                    function()
            here.wait_stream(self.stream)
            if self.pool_anchor is None:
                self.pool = torch.cuda.graph_pool_handle()
                self.pool_anchor = self._capture(lambda: torch.zeros(1, device=device))
            replay: Function = self._capture(function).replay
        return replay

    def _capture(self, function: Callable[[], Any]) -> Any:
        graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        # Other threads may allocate meanwhile: only this thread's operations are checked.
        options = {"pool": self.pool, "stream": self.stream, "capture_error_mode": "thread_local"}
        try:
            with torch.cuda.graph(graph, **options):
                function()
        finally:
            torch.cuda.set_stream(here)  # torch leaves the thread on the capture stream if capturing fails
        return graph


def pinned(tensor: Tensor) -> Tensor:
    """Return zeros like a tensor on the host, in pinned memory if the tensor is on a GPU."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)


class Arena:
    """Tensors at fixed addresses for sessions of up to `rows` queries, and the passes captured on them."""

    def __init__(self, model: Transformer, rows: int, source: int, slots: int) -> None:
        config, weight = model.config, model.embedding.weight
        self.model, self.shape = model, (rows, source, slots)
        heads, width = config.heads, config.inner_width // config.heads
        self.cache = weight.new_zeros(config.decoder_layers, 2, rows, heads, slots, width)
        self.memory_cache = weight.new_zeros(config.decoder_layers, 2, rows, heads, source, width)
        self.source_mask = weight.new_zeros(rows, 1, 1, source, dtype=torch.bool)
        self.bytes = self.cache.nbytes + self.memory_cache.nbytes + self.source_mask.nbytes  # nearly all of the arena
        self.passes: dict[Any, RecordedPass] = {}
        self.encoder = RecordedEncoder(model, self)

    def recorded_pass(self, nodes: int, top_k: int, states: bool) -> RecordedPass:
        """Return the pass of a size, which is recorded when it first runs."""
        key = nodes, top_k, states
        if key not in self.passes:
            self.passes[key] = RecordedPass(self.model, self, *key)
        return self.passes[key]

    def clear(self) -> None:
        """Reset all rows to padding with one source token, so that no softmax divides by 0."""
        self.cache.zero_()
        self.memory_cache.zero_()
        self.source_mask.zero_()
        self.source_mask[..., 0] = True


class Recorded:
    """A computation on fixed addresses, captured when it first runs."""

    replay: Function | None = None

    def compute(self) -> None:
        """Compute."""
        raise NotImplementedError

    def repeat(self, device: torch.device, record: Recorder) -> None:
        """Replay the graph, captured first if there is none; warns if it cannot be captured, and computes then."""
        if self.replay is None:
            self.compute()  # allocates the outputs, and raises what is wrong with the computation itself
            try:
                self.replay = record(self.compute, device)
            except torch.cuda.OutOfMemoryError:
                raise
            except RuntimeError as error:
                warnings.warn(f"a pass could not be recorded as a CUDA graph, so it is slower: {error}", stacklevel=2)
                self.replay = self.compute
        self.replay()


class RecordedEncoder(Recorded):
    """Encodes source tokens into an arena's memory cache (prefill), for all its rows and the longest source."""

    def __init__(self, model: Transformer, arena: Arena) -> None:
        self.model, self.arena = model, arena
        rows, source, _ = arena.shape
        self.length = min(source, model.config.max_positions)
        self.ids = torch.zeros(rows, self.length, dtype=torch.int64, device=arena.cache.device)
        self.staging = pinned(self.ids)

    def start(self, ids: Tensor, record: Recorder) -> None:
        """Encode padded sources (B, S) from the host; further rows are padding of one token."""
        count, width = ids.shape
        self.staging.fill_(PAD)
        self.staging[count:, 0] = BOS
        self.staging[:count, :width] = ids
        self.ids.copy_(self.staging, non_blocking=True)
        self.repeat(self.ids.device, record)

    def compute(self) -> None:
        """Encode the tokens in `ids`."""
        memory, source_mask = self.model.encode(self.ids)
        self.arena.memory_cache[:, :, :, :, : self.length] = self.model.memory_cache(memory)
        self.arena.source_mask[:, :, :, : self.length] = source_mask


class RecordedPass(Recorded):
    """A forward pass of one size on an arena: inputs, computation and outputs at fixed addresses."""

    def __init__(self, model: Transformer, arena: Arena, nodes: int, top_k: int, states: bool) -> None:
        """Allocate inputs for N `nodes`; `states`: whether to keep the last hidden states."""
        self.model, self.arena = model, arena
        self.top_k, self.keeps_states = top_k, states
        rows, _, slots = arena.shape
        device = arena.cache.device
        # All inputs lie in one buffer, which one copy fills: tokens, depths and slots, then the attention mask.
        self.shapes = (3, rows, nodes), (rows, nodes, slots + nodes)
        size = torch.int64.itemsize * 3 * rows * nodes
        self.buffer = torch.zeros(size + rows * nodes * (slots + nodes), dtype=torch.uint8, device=device)
        self.staging = pinned(self.buffer)
        self.inputs, self.attention_mask = self._split(self.buffer)
        self.staged = tuple(tensor.numpy() for tensor in self._split(self.staging))
        self.rows = torch.arange(rows, device=device)[:, None]
        self.outputs: tuple[Tensor, ...] = ()  # ids and log-probs (2, B, N, k); last hidden states (B, N, D), if kept

    def _split(self, buffer: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs (3, B, N) and the mask (B, N, C + N) in a buffer."""
        numbers, mask = self.shapes
        size = torch.int64.itemsize * int(np.prod(numbers))
        return buffer[:size].view(torch.int64).view(numbers), buffer[size:].view(torch.bool).view(mask)

    def compute(self) -> None:
        """Run the model on the inputs and copy its results to the outputs."""
        tokens, depths, slots = self.inputs
        arena = self.arena
        states: list[Tensor] | None = [] if self.keeps_states else None
        cached = arena.cache, arena.memory_cache, arena.source_mask
        logits, new_kv = self.model.step(tokens, depths, self.attention_mask[:, None], *cached, states)
        write_kv(arena.cache, new_kv, self.rows, slots)
        results = sorted_tokens(logits, self.top_k), *(states or ())
        # Allocated by the first run, which is not captured: memory allocated during a capture is not read later.
        if not self.outputs:
            self.outputs = tuple(map(torch.empty_like, results))
        for output, result in zip(self.outputs, results, strict=True):
            output.copy_(result)

    def run(self, tokens: Ints, depths: Ints, attention_mask: Mask, slot_offsets: Ints, record: Recorder) -> Tensor:
        """Run a pass that is no larger; returns its ids and log-probs (2, B, N, k) on the host."""
        nodes, slots = self.inputs.shape[2], self.arena.shape[2]
        count, width = tokens.shape
        cached = attention_mask.shape[2] - width
        inputs, mask = self.staged
        inputs[:], mask[:] = 0, False
        inputs[0, :count, :width], inputs[1, :count, :width] = tokens, depths
        # Padding writes to the slots of the next nodes.
        inputs[2, :count] = slot_offsets[:, None]
        inputs[2] += np.arange(nodes)
        mask[:, np.arange(nodes), slots + np.arange(nodes)] = True
        mask[:count, :width, :cached] = attention_mask[:, :, :cached]
        mask[:count, :width, slots : slots + width] = attention_mask[:, :, cached:]
        self.buffer.copy_(self.staging, non_blocking=True)
        self.repeat(self.inputs.device, record)
        return self.outputs[0].cpu()


class GraphBackend(TorchBackend):
    """A model on a CUDA device whose forward passes are captured as CUDA graphs.

    `record` captures a function and returns its replay; `idle_bytes` is the maximum size of idle arenas.
    """

    def __init__(self, model: Transformer, *, record: Recorder | None = None, idle_bytes: int = 0) -> None:
        super().__init__(model)
        self.record = record or CudaGraphs()
        self.computing = Lock()
        total = torch.cuda.get_device_properties(self.device).total_memory if self.device.type == "cuda" else 1 << 30
        self.idle_bytes = idle_bytes or int(IDLE_SHARE * total)
        # No lock: sessions release arenas when garbage-collected, which may happen anywhere, also in `acquire`.
        self._idle: deque[Arena] = deque()  # most recently used last

    @torch.inference_mode()
    def open(self, sources: Sequence[Sequence[int]], *, top_k: int, states: bool = False) -> GraphRunner:
        """Encode the sources in an arena; see `Backend.open`."""
        ids = source_batch(self.model, sources)
        arena = self.acquire(rows_for(len(ids)), round_up(ids.shape[1], SOURCE), FIRST_SLOTS)
        with self.computing:
            arena.encoder.start(ids, self.record)
        return GraphRunner(self, arena, ids.shape, min(top_k, self.model.config.vocab_size), states)

    @torch.inference_mode()
    def record_common(self) -> None:
        """Record the encoder and the passes of common sizes, so that queries find them."""
        config = self.model.config
        top_k, arenas = padded_candidates(1, config.vocab_size), []
        for source in COMMON_SOURCES:
            for rows, sizes in COMMON:
                arena = self.acquire(rows, source, FIRST_SLOTS)
                ids = source_batch(self.model, [[BOS]])
                arena.encoder.start(ids, self.record)
                for nodes in sizes:
                    recorded_pass = arena.recorded_pass(padded_nodes(nodes, rows), top_k, False)
                    first = np.zeros((1, 1), dtype=np.int64)
                    recorded_pass.run(first + BOS, first, np.ones((1, 1, 1), dtype=np.bool_), first[0], self.record)
                arenas.append(arena)
        self.release_arenas(arenas)

    def acquire(self, rows: int, source: int, slots: int) -> Arena:
        """Return a cleared arena of this shape, reusing an idle one if possible."""
        arena = self._pop_idle((rows, source, slots)) or Arena(self.model, rows, source, slots)
        arena.clear()
        return arena

    def _pop_idle(self, shape: tuple[int, int, int]) -> Arena | None:
        for arena in reversed(tuple(self._idle)):
            if arena.shape == shape:
                with suppress(ValueError, IndexError):  # another thread was quicker
                    self._idle.remove(arena)
                    return arena
        return None

    def release_arenas(self, arenas: list[Arena]) -> None:
        """Keep arenas for later sessions, and free the least recently used ones above `idle_bytes`."""
        self._idle.extend(arenas)
        total = sum(arena.bytes for arena in list(self._idle))
        while total > self.idle_bytes:
            try:
                total -= self._idle.popleft().bytes
            except IndexError:  # another thread was quicker
                return


class GraphRunner(TorchRunner):
    """One session in an arena; the first `count` rows of the arena are its queries, the others padding."""

    def __init__(self, backend: GraphBackend, arena: Arena, shape: Sequence[int], top_k: int, states: bool) -> None:
        """Start with an empty cache in an arena with encoded sources; `shape`: their number and longest length."""
        self.graphs, (self.count, self.source) = backend, shape
        memory_cache = arena.memory_cache[:, :, : self.count, :, : self.source]
        super().__init__(backend, memory_cache, arena.source_mask, top_k, states)
        self._held = [arena]
        self._use(arena)
        weakref.finalize(self, backend.release_arenas, self._held).atexit = False

    def _use(self, arena: Arena) -> None:
        self._held[0] = arena
        self.cache, self.memory_cache, self.source_mask = arena.cache, arena.memory_cache, arena.source_mask

    @torch.inference_mode()
    def _move(self, rows: Ints, slots: int) -> None:
        """Continue in another arena with these rows and at least `slots` slots."""
        old, have = self._held[0], self._held[0].shape[2]
        new = self.graphs.acquire(rows_for(len(rows)), old.shape[1], max(slots, have))
        index = self.to_device(rows)
        new.cache[:, :, : len(rows), :, :have] = old.cache.index_select(2, index)
        new.memory_cache[:, :, : len(rows)] = old.memory_cache.index_select(2, index)
        new.source_mask[: len(rows)] = old.source_mask.index_select(0, index)
        self.count = len(rows)
        self._use(new)
        self.graphs.release_arenas([old])

    def reserve(self, slots: int) -> None:
        """Grow the KV cache to at least `slots` slots."""
        have = self._held[0].shape[2]
        if slots > have:
            self._move(np.arange(self.count), max(round_up(slots, SLOTS), 2 * have))

    @torch.inference_mode()
    def run_padded(self, tokens: Ints, depths: Ints, attention_mask: Mask, slot_offsets: Ints) -> tuple[Ints, Floats]:
        """Run the forward pass of new nodes; see `TorchRunner.run_padded`."""
        count, width = tokens.shape
        nodes = padded_nodes(width, self._held[0].shape[0])
        self.reserve(int(slot_offsets.max()) + nodes)
        candidates = padded_candidates(self.top_k, self.graphs.model.config.vocab_size)
        with self.graphs.computing:
            recorded_pass = self._held[0].recorded_pass(nodes, candidates, self.keeps_states)
            best = recorded_pass.run(tokens, depths, attention_mask, slot_offsets, self.graphs.record)
            if self.keeps_states:
                self.hidden_states = recorded_pass.outputs[1][:count, :width].clone()  # the next pass writes there
        ids, log_probs = best[:, :count, :width, : self.top_k].numpy()
        return ids.astype(np.int64), log_probs.copy()

    def gather_rows(self, rows: Sequence[int]) -> None:
        """Keep these rows of the batch, in this order."""
        self._move(np.array(rows, dtype=np.int64), 0)
