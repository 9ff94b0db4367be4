"""The pass in torch as recorded CUDA graphs: one launch for some two hundred small kernels, and one copy to the host.

A graph computes on fixed addresses and fixed shapes. So cache and memory of a session lie in an `Arena`, which later
sessions use again, and a pass is padded to the next of a few sizes; for each size that comes twice, the arena keeps a
recording.

Shapes: B rows of the arena, N nodes of the padded pass, C slots in use, S source tokens, D model width, k candidates.
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

from chemspec.model.runners.padded import Finish, Mask
from chemspec.model.runners.torch_runner import TorchBackend, TorchRunner, ranked, source_batch, write_kv
from chemspec.model.session import Floats, Ints, NodeBatch
from chemspec.model.transformer import Transformer
from chemspec.tokenizer import BOS, PAD

Function = Callable[[], None]
Recorder = Callable[[Function, torch.device], Function]

# Nodes are padded to powers of two up to this and to multiples of it beyond, sources and slots to multiples.
NODES, SOURCE, SLOTS = 64, 32, 64
FIRST_SLOTS = 256  # of an arena, which doubles when a session outgrows it
# Share of a GPU's memory that idle arenas may keep. Their recordings go with them, and to record takes longer than
# some hundred passes; so by bytes, not by number: a batch that shrinks goes through a dozen shapes.
IDLE_SHARE = 0.25


def padded(count: int, step: int) -> int:
    """Round up to a power of two, or beyond `step` to a multiple of it; at least 1."""
    return -(-count // step) * step if count > step else 1 << max(0, count - 1).bit_length()


def rows_for(count: int) -> int:
    """Round a number of queries up to a power of two or one and a half of it; at least 1."""
    power = 1 << max(0, count - 1).bit_length()
    return 3 * power // 4 if power > 2 and count <= 3 * power // 4 else power


def multiple(count: int, step: int) -> int:
    """Round up to a multiple of `step`."""
    return -(-count // step) * step


RECORDING = Lock()  # torch records one graph at a time in a process


class CudaGraphs:
    """Records on one CUDA device; its recordings share memory, so that they must run one at a time."""

    def __init__(self) -> None:
        self.stream: Any = None  # of the device: torch's own is that of the device used first
        self.pool: Any = None
        self.keeper: Any = None  # a recording that never goes: without any, torch refuses to record into the pool again

    def __call__(self, function: Function, device: torch.device) -> Function:
        """Run a function twice on a stream of its own and then record it; returns what does the same again."""
        with RECORDING, torch.cuda.device(device):
            here = torch.cuda.current_stream()
            self.stream = self.stream or torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self.stream.wait_stream(here)
            with torch.cuda.stream(self.stream):
                for _ in range(2):
                    function()
            here.wait_stream(self.stream)
            if self.keeper is None:
                self.pool = torch.cuda.graph_pool_handle()
                self.keeper = self._capture(lambda: torch.zeros(1, device=device))
            replay: Function = self._capture(function).replay
        return replay

    def _capture(self, function: Callable[[], Any]) -> Any:
        graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        # Other threads may allocate meanwhile: only what this one does must be fit for a graph.
        how = {"pool": self.pool, "stream": self.stream, "capture_error_mode": "thread_local"}
        try:
            with torch.cuda.graph(graph, **how):
                function()
        finally:
            torch.cuda.set_stream(here)  # torch leaves this thread on the other one where recording fails
        return graph


def recorded(function: Function, device: torch.device, record: Recorder) -> Function:
    """Record a function, or return it as it is, with a warning, where that cannot be done."""
    try:
        return record(function, device)
    except RuntimeError as error:
        warnings.warn(f"a pass could not be recorded as a CUDA graph, so it is slower: {error}", stacklevel=2)
        return function


def pinned(tensor: Tensor) -> Tensor:
    """Return zeros like a tensor on the host, where a GPU that holds it can read and write them on its own."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)


def marked(device: torch.device) -> Function:
    """Return what waits until the device has done what it has been given so far, and for nothing given later."""
    if device.type != "cuda":
        return lambda: None
    with torch.cuda.device(device):
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
    wait: Function = event.synchronize
    return wait


class Arena:
    """Tensors that stay where they are, for sessions of up to `rows` queries, and the passes recorded on them."""

    def __init__(self, model: Transformer, rows: int, source: int, slots: int) -> None:
        config, weight = model.config, model.embedding.weight
        self.shape = rows, source, slots
        heads, width = config.heads, config.inner_width // config.heads
        self.cache = weight.new_zeros(config.decoder_layers, 2, rows, heads, slots, width)
        self.memory = weight.new_zeros(config.decoder_layers, 2, rows, heads, source, width)
        self.source_mask = weight.new_zeros(rows, 1, 1, source, dtype=torch.bool)
        self.passes: dict[Any, RecordedPass] = {}
        self.encoder = RecordedEncoder(model, self)

    @property
    def bytes(self) -> int:
        """Of cache and memory, which are nearly all there is."""
        return sum(tensor.nbytes for tensor in (self.cache, self.memory, self.source_mask))

    def clear(self) -> None:
        """Make all rows padding of one source token, or a softmax would divide by 0; nothing of a session is left."""
        self.cache.zero_()
        self.memory.zero_()
        self.source_mask.zero_()
        self.source_mask[..., 0] = True


class Recorded:
    """A computation on fixed addresses, which is recorded when it comes again."""

    replay: Function | None = None
    times = 0

    def compute(self) -> None:
        """Compute."""
        raise NotImplementedError

    def repeat(self, device: torch.device, record: Recorder) -> None:
        """Compute, by the recording if there is one."""
        self.times += 1
        if self.replay is None and self.times > 1:
            self.replay = recorded(self.compute, device, record)
        (self.replay or self.compute)()


class RecordedEncoder(Recorded):
    """From source tokens to an arena's memory: of all its rows, as long as it and the model's positions allow."""

    def __init__(self, model: Transformer, arena: Arena) -> None:
        self.model, self.arena = model, arena
        rows, source, _ = arena.shape
        self.length = min(source, model.config.max_positions)
        self.ids = torch.zeros(rows, self.length, dtype=torch.int64, device=arena.cache.device)
        self.given = pinned(self.ids)

    def start(self, ids: Tensor, record: Recorder) -> None:
        """Encode sources (B, S), on the host and padded; rows beyond them are padding of one token."""
        count, width = ids.shape
        self.given.fill_(PAD)
        self.given[count:, 0] = BOS
        self.given[:count, :width] = ids
        self.ids.copy_(self.given, non_blocking=True)
        self.repeat(self.ids.device, record)

    def compute(self) -> None:
        """Encode what is in `ids`."""
        memory, source_mask = self.model.encode(self.ids)
        self.arena.memory[:, :, :, :, : self.length] = self.model.memory_cache(memory)
        self.arena.source_mask[:, :, :, : self.length] = source_mask


class RecordedPass(Recorded):
    """One size of a pass on an arena: its inputs, the computation, and its outputs, all at fixed addresses."""

    def __init__(
        self,
        model: Transformer,
        arena: Arena,
        nodes: int,
        used: int,
        top_k: int,
        heads: Sequence[tuple[int, int]],
        states: bool,
    ) -> None:
        """Make room for inputs.

        Args:
            model: what computes.
            arena: where cache and memory lie.
            nodes: N.
            used: C.
            top_k: k.
            heads: (layer, head) of the cross-attention to watch.
            states: whether to keep the last hidden states.
        """
        self.model, self.arena = model, arena
        self.used, self.top_k, self.heads, self.keeps_states = used, top_k, heads, states
        rows, device = arena.shape[0], arena.cache.device
        self.inputs = torch.zeros(3, rows, nodes, dtype=torch.int64, device=device)  # tokens, depths, slots
        self.attention_mask = torch.zeros(rows, nodes, used + nodes, dtype=torch.bool, device=device)
        self.given = [pinned(tensor) for tensor in (self.inputs, self.attention_mask)]  # what goes there
        self.found: Tensor | None = None  # a copy of `best` on the host
        self.rows = torch.arange(rows, device=device)[:, None]
        self.outputs: tuple[Tensor, ...] = ()  # those of `best`, then `attention`, then `hidden_states`

    def compute(self) -> None:
        """Run the model on the inputs and copy what it gives to the outputs."""
        tokens, depths, slots = self.inputs
        arena = self.arena
        attention: list[Tensor] = []
        states: list[Tensor] | None = [] if self.keeps_states else None
        logits, new_kv = self.model.step(
            tokens,
            depths,
            self.attention_mask[:, None],
            arena.cache[:, :, :, :, : self.used],
            arena.memory,
            arena.source_mask,
            self.heads,
            attention,
            states,
        )
        write_kv(arena.cache, new_kv, self.rows, slots)
        attended = (torch.stack(attention, dim=2).float(),) if attention else ()
        results = ranked(logits, self.top_k), *attended, *(states or ())
        # Made by the first run, which is not recorded; so nothing that a recording allocates is read later.
        if not self.outputs:
            self.outputs = tuple(map(torch.empty_like, results))
        for output, result in zip(self.outputs, results, strict=True):
            output.copy_(result)

    @property
    def best(self) -> Tensor:
        """Ids and log-probs (2, B, N, k)."""
        return self.outputs[0]

    @property
    def attention(self) -> Tensor | None:
        """Attention of the watched heads (B, N, heads, S)."""
        return self.outputs[1] if self.heads else None

    @property
    def hidden_states(self) -> Tensor | None:
        """Last hidden states (B, N, D)."""
        return self.outputs[-1] if self.keeps_states else None

    def start(self, tokens: Ints, depths: Ints, attention_mask: Mask, slot_offsets: Ints, record: Recorder) -> Function:
        """Fill in the inputs of a pass whose sizes are no larger, and let it be computed; returns what waits for that.

        Args:
            tokens: as `PaddedRunner.run_padded` takes them, like the next three.
            depths: likewise.
            attention_mask: likewise.
            slot_offsets: likewise.
            record: what records, if this size has come before.
        """
        nodes = self.inputs.shape[2]
        count, width = tokens.shape
        cached = attention_mask.shape[2] - width
        inputs, mask = (tensor.numpy() for tensor in self.given)
        inputs[:], mask[:] = 0, False
        inputs[0, :count, :width], inputs[1, :count, :width] = tokens, depths
        # Padding writes to slots that the next nodes will take.
        inputs[2, :count] = slot_offsets[:, None]
        inputs[2] += np.arange(nodes)
        mask[:, np.arange(nodes), self.used + np.arange(nodes)] = True
        mask[:count, :width, :cached] = attention_mask[:, :, :cached]
        mask[:count, :width, self.used : self.used + width] = attention_mask[:, :, cached:]
        for tensor, given in zip((self.inputs, self.attention_mask), self.given, strict=True):
            tensor.copy_(given, non_blocking=True)
        self.repeat(self.inputs.device, record)
        if self.found is None:
            self.found = pinned(self.best)
        self.found.copy_(self.best, non_blocking=True)
        return marked(self.inputs.device)


class GraphBackend(TorchBackend):
    """A model on a CUDA device whose passes are recorded.

    Args:
        record: turns a function into one that does the same again; default: CUDA graphs.
        idle_bytes: most bytes of arenas that wait for later sessions; default: a share of the GPU's memory.
    """

    def __init__(self, model: Transformer, *, record: Recorder | None = None, idle_bytes: int = 0) -> None:
        super().__init__(model)
        self.record = record or CudaGraphs()
        self.overlaps = self.device.type == "cuda"
        self.computing = Lock()
        if not idle_bytes:
            on_gpu = self.device.type == "cuda"
            total = torch.cuda.get_device_properties(self.device).total_memory if on_gpu else 1 << 30
            idle_bytes = int(IDLE_SHARE * total)
        self.idle_bytes = idle_bytes
        # No lock: sessions give back when they are collected, which may happen anywhere, also in `lend`.
        self._idle: deque[Arena] = deque()  # the one used last at the end

    @torch.inference_mode()
    def open(
        self,
        sources: Sequence[Sequence[int]],
        *,
        top_k: int,
        heads: Sequence[tuple[int, int]] = (),
        states: bool = False,
    ) -> GraphRunner:
        """Encode the sources in an arena; see `session.Backend.open`."""
        ids = source_batch(self.model, sources)
        arena = self.lend(rows_for(len(ids)), multiple(ids.shape[1], SOURCE), FIRST_SLOTS)
        with self.computing:
            arena.encoder.start(ids, self.record)
        return GraphRunner(self, arena, ids.shape, min(top_k, self.model.config.vocab_size), heads, states)

    def lend(self, rows: int, source: int, slots: int) -> Arena:
        """A cleared arena of this shape, one used before if there is one."""
        arena = self._find((rows, source, slots)) or Arena(self.model, rows, source, slots)
        arena.clear()
        return arena

    def _find(self, shape: tuple[int, int, int]) -> Arena | None:
        for arena in reversed(tuple(self._idle)):
            if arena.shape == shape:
                with suppress(ValueError, IndexError):  # another thread was quicker
                    self._idle.remove(arena)
                    return arena
        return None

    def take_back(self, arenas: list[Arena]) -> None:
        """Keep arenas for later sessions, and drop those not used for longest where they are too many."""
        self._idle.extend(arenas)
        kept = sum(arena.bytes for arena in list(self._idle))
        while kept > self.idle_bytes:
            try:
                kept -= self._idle.popleft().bytes
            except IndexError:  # another thread was quicker
                return


class GraphRunner(TorchRunner):
    """One session in an arena; of the arena's rows the first `count` are its queries, the others padding."""

    def __init__(
        self,
        backend: GraphBackend,
        arena: Arena,
        shape: Sequence[int],
        top_k: int,
        heads: Sequence[tuple[int, int]],
        states: bool,
    ) -> None:
        """Start with an empty cache.

        Args:
            backend: the model.
            arena: where the sources have been encoded.
            shape: queries, and tokens of the longest source.
            top_k: candidates kept per node.
            heads: (layer, head) of the cross-attention to watch.
            states: whether to keep the last hidden states.
        """
        self.graphs, (self.count, self.source) = backend, shape
        memory = arena.memory[:, :, : self.count, :, : self.source]
        super().__init__(backend, memory, arena.source_mask, top_k, heads, states)
        self._held = [arena]
        self._use(arena)
        weakref.finalize(self, backend.take_back, self._held).atexit = False

    def _use(self, arena: Arena) -> None:
        self._held[0] = arena
        self.cache, self.memory, self.source_mask = arena.cache, arena.memory, arena.source_mask

    @torch.inference_mode()
    def _move(self, rows: Ints, slots: int) -> None:
        """Go on in another arena with these rows and room for so many slots."""
        old, have = self._held[0], self._held[0].shape[2]
        new = self.graphs.lend(rows_for(len(rows)), old.shape[1], max(slots, have))
        index = self.to_device(rows)
        new.cache[:, :, : len(rows), :, :have] = old.cache.index_select(2, index)
        new.memory[:, :, : len(rows)] = old.memory.index_select(2, index)
        new.source_mask[: len(rows)] = old.source_mask.index_select(0, index)
        self.count = len(rows)
        self._use(new)
        self.graphs.take_back([old])

    def reserve(self, slots: int) -> None:
        """Make room for at least so many slots."""
        have = self._held[0].shape[2]
        if slots > have:
            self._move(np.arange(self.count), max(multiple(slots, SLOTS), 2 * have))

    def start(self, nodes: NodeBatch) -> Finish:
        """Let new nodes be computed; see `session.DeferredRunner`."""
        return self.begin(nodes)

    @torch.inference_mode()
    def begin_padded(self, tokens: Ints, depths: Ints, attention_mask: Mask, slot_offsets: Ints) -> Finish:
        """Let new nodes be computed; see `PaddedRunner.run_padded`."""
        count, width = tokens.shape
        nodes, used = padded(width, NODES), multiple(attention_mask.shape[2] - width, SLOTS)
        self.reserve(max(used, int(slot_offsets.max()) + nodes))
        arena = self._held[0]
        key = nodes, used, self.top_k, tuple(self.heads), self.keeps_states
        with self.graphs.computing:
            if key not in arena.passes:
                arena.passes[key] = RecordedPass(self.graphs.model, arena, *key)
            one = arena.passes[key]
            wait = one.start(tokens, depths, attention_mask, slot_offsets, self.graphs.record)

        @torch.inference_mode()
        def finish() -> tuple[Ints, Floats]:
            wait()
            if one.hidden_states is not None:
                self.hidden_states = one.hidden_states[:count, :width].clone()  # the next pass writes there
            if one.attention is not None:
                bos = len(self.graphs.model.config.before_source)  # and eos, which nobody copies
                self.attention = one.attention[:count, :width, :, bos : self.source].cpu().numpy().copy()
            assert one.found is not None
            ids, log_probs = one.found[:, :count, :width].numpy()
            return ids.astype(np.int64), log_probs.copy()

        return finish

    def gather_rows(self, rows: Sequence[int]) -> None:
        """Keep these rows of the batch, in this order."""
        self._move(np.array(rows, dtype=np.int64), 0)
