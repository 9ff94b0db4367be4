"""Runner in torch with CUDA graphs: a forward pass is one launch, one copy in, one copy out and one wait.

A CUDA graph computes on fixed addresses and shapes. So the KV caches of a session lie in an `Arena`, which later
sessions reuse, and a pass is padded to the next of a few sizes, each captured once: the usual ones at loading, so that
no query waits for a recording. A pass of 64 nodes takes about as long as one of a single node, so all up to there have
one size; then drafted and undrafted passes run the same kernels, and give the same bits (`path_decoder.py`).

The nodes of a pass lie in groups, each of one query, so that one query may have many nodes and another none.

Shapes: B rows of the arena, G groups of N nodes in the padded pass, M = G * N, P nodes of a path, S source tokens, D
model width, k candidates.
"""

from __future__ import annotations

import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chemspec.model.runner import Floats, Ints, MaskedBatch, NodeBatch, Runner
from chemspec.model.runners.native.page_table import NewNodes, PageTable, PassInputs, PassSizes
from chemspec.model.runners.path_decoder import PassTensors, PathDecoder, Pool, Sources
from chemspec.model.runners.torch_runner import TorchBackend, source_batch
from chemspec.model.transformer import Transformer
from chemspec.tokenizer import BOS, PAD
from chemspec.types import PluginError

Function = Callable[[], None]
Recorder = Callable[[Function, torch.device], Function]

GROUP = 8  # nodes of a group in arenas of several rows
# Passes recorded at loading: groups and their nodes, by rows of the arena, and lengths of paths. Others: as needed.
COMMON = {1: ((1, 64), (1, 128)), 8: ((8, GROUP), (16, GROUP), (32, GROUP)), 64: ((64, 1), (64, GROUP), (128, GROUP))}
COMMON_PATHS = (64, 128)
PATH, SOURCE, CANDIDATES = 64, 128, 16  # paths, sources and candidates are padded to powers of two from these on
JOINED = 8  # sources that are encoded together
# Pages of an arena, and nodes of its largest pass, by row; it is replaced by one of twice the size if they do not do.
PAGES, FRESH = {1: 1024, 8: 512}, {1: 256, 8: 64}
MIN_SIZES = 256, 16  # smallest sizes of larger arenas
# Share of a GPU's memory for idle arenas. Their graphs are freed with them, and capturing one takes as long as some
# hundred passes; limited by bytes, not by number.
IDLE_SHARE = 0.25


def next_power(count: int, least: int = 1) -> int:
    """Return the next power of two, at least `least`, which is one."""
    return max(least, 1 << max(0, count - 1).bit_length())


def pass_shape(sizes: PassSizes, rows: int) -> tuple[int, int]:
    """Return the groups of a padded pass, and the nodes of each: of all together 64 or more."""
    if rows == 1:
        return 1, next_power(sizes.widest, 64)
    if rows >= 64 and sizes.widest <= 1:
        return rows, 1
    return next_power(sizes.groups, rows), GROUP


def rows_for(count: int) -> int:
    """Return the rows of the arena for a number of queries."""
    return next(rows for rows in (*COMMON, next_power(count)) if count <= rows)


RECORDING = Lock()  # torch captures one graph at a time per process


class CudaGraphs:
    """Captures CUDA graphs on one device; they share a memory pool, so they must run one at a time."""

    def __init__(self) -> None:
        self.stream: Any = None  # stream of this device: torch's default capture stream is on the device used first
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


class Shape(NamedTuple):
    """Sizes of an arena."""

    rows: int
    source: int
    pages: int
    fresh: int  # nodes of its largest pass

    @classmethod
    def of(cls, queries: int, source: int) -> Shape:
        """Return the first shape for a number of queries, and the length of the longest source."""
        rows = rows_for(queries)
        pages, fresh = PAGES.get(rows, MIN_SIZES[0]), FRESH.get(rows, MIN_SIZES[1])
        return cls(rows, next_power(source, SOURCE), rows * pages, rows * fresh)


class Arena:
    """Tensors at fixed addresses for sessions of up to `rows` queries, and the passes captured on them."""

    def __init__(self, decoder: PathDecoder, shape: Shape) -> None:
        self.decoder, self.shape = decoder, shape
        layers, inner = len(decoder.layers), 3 * decoder.inner
        self.pool = decoder.table.new_zeros(layers, shape.pages + shape.fresh, inner)
        self.sources = Sources.empty(shape.rows, shape.source, decoder.model)
        self.bytes = self.pool.nbytes + self.sources.whole.nbytes  # nearly all of the arena
        self.passes: dict[Any, RecordedPass] = {}
        self.encoder = RecordedEncoder(self)

    def recorded_pass(self, groups: int, nodes: int, path: int, top_k: int, states: bool) -> RecordedPass:
        """Return the pass of a size, which is recorded when it first runs."""
        key = groups, nodes, path, top_k, states
        recorded = self.passes.get(key)
        if recorded is None:
            recorded = self.passes[key] = RecordedPass(self, *key)
        return recorded

    def copy_from(self, other: Arena) -> None:
        """Copy what a session has in a smaller arena."""
        rows, source, pages, _ = other.shape
        self.pool[:, :pages] = other.pool[:, :pages]
        self.sources.memory[:rows, ..., :source, :] = other.sources.memory
        self.sources.bias[:rows] = -torch.inf
        self.sources.bias[:rows, ..., :source] = other.sources.bias


class Recorded:
    """A computation on fixed addresses, captured when it first runs.

    Its inputs lie in one buffer on the device, and before that on the host.
    """

    buffer: Tensor
    staging: Tensor
    replay: Function | None = None

    def compute(self) -> None:
        """Compute on what is in the buffer."""
        raise NotImplementedError

    def copy_out(self) -> None:
        """Copy the outputs to the host, if they are needed there."""

    def record(self, device: torch.device, record: Recorder) -> None:
        """Capture the computation; warns if that is impossible, and computes at each replay then."""
        self.compute()  # raises what is wrong with the computation itself
        try:
            self.replay = record(self.compute, device)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as error:
            warnings.warn(f"a pass could not be recorded as a CUDA graph, so it is slower: {error}", stacklevel=2)
            self.replay = self.compute


class RecordedEncoder(Recorded):
    """Encodes up to `JOINED` sources into rows of an arena (prefill)."""

    @torch.inference_mode(False)  # the buffers are written outside of that mode
    def __init__(self, arena: Arena) -> None:
        self.arena, self.model = arena, arena.decoder.model
        self.count = min(JOINED, arena.shape.rows)
        self.length = min(arena.shape.source, self.model.config.max_positions)
        shape = self.count, 1 + self.length  # the row of each source, then its tokens
        self.buffer = torch.zeros(shape, dtype=torch.int64, device=arena.pool.device)
        self.staging = pinned(self.buffer)

    def start(self, rows: Sequence[int], ids: Tensor) -> None:
        """Set the next sources, padded tokens (`count` or fewer, S) on the host, and their rows."""
        filled = [min(index, len(rows) - 1) for index in range(self.count)]  # padding repeats the last one
        self.staging.fill_(PAD)
        self.staging[:, 0] = torch.tensor([rows[index] for index in filled])
        self.staging[:, 1 : 1 + ids.shape[1]] = ids[filled]

    @torch.inference_mode()
    def compute(self) -> None:
        """Encode the tokens."""
        rows, ids = self.buffer[:, 0], self.buffer[:, 1:]
        encoded, source_mask = self.model.encode(ids)
        memory = self.arena.sources.memory[:, :, :, :-1, : self.length]
        memory.index_copy_(0, rows, self.model.memory_cache(encoded).permute(2, 0, 1, 3, 4, 5))
        bias = torch.zeros_like(source_mask, dtype=memory.dtype).masked_fill(~source_mask, -torch.inf)
        self.arena.sources.bias[..., : self.length].index_copy_(0, rows, bias)


class RecordedPass(Recorded):
    """A forward pass of one size on an arena: inputs, computation and outputs at fixed addresses."""

    @torch.inference_mode(False)  # as above
    def __init__(self, arena: Arena, groups: int, nodes: int, path: int, top_k: int, states: bool) -> None:
        """Allocate inputs for `groups` of N `nodes`, P = `path`; `states`: whether to keep the last hidden states."""
        self.decoder, device = arena.decoder, arena.pool.device
        self.top_k, self.hidden_states = top_k, None
        rows, _, pages, _ = arena.shape
        count, self.direct = groups * nodes, rows == 1 or nodes == 1
        # All inputs lie in one buffer, which one copy fills.
        sizes = [8 * count, 8 * count, 4 * count, 4 * count * path, 4 * groups]
        self.buffer = torch.zeros(sum(sizes), dtype=torch.uint8, device=device)
        self.staging = pinned(self.buffer)
        page, *others = torch.split(self.buffer, sizes)
        self.inputs = PassTensors(page.view(torch.int64), *(part.view(torch.int32) for part in others))
        self.where = np.zeros(count, dtype=np.int32)  # places of new nodes among the padded
        first = self.staging.data_ptr()
        starts = [first + sum(sizes[:number]) for number in range(len(sizes))]
        self.written = PassInputs(groups, nodes, self.direct, path, pages, *starts, self.where.ctypes.data)
        fresh = arena.pool[:, pages : pages + count]
        self.pool = Pool(arena.pool[:, :pages], fresh, arena.pool, arena.sources)
        self.starts = torch.arange(0, 2 * count, 2, dtype=torch.int32, device=device)
        self.biases = self.decoder.path_biases(path)
        wide = arena.pool.dtype == torch.float64
        self.word = torch.int64 if wide else torch.int32  # holds a log-prob, and an id
        self.best = torch.zeros(2, count, top_k, dtype=self.word, device=device)
        self.host = pinned(self.best)
        self.ids, bits = self.host.numpy()
        self.log_probs = bits.view(np.float64 if wide else np.float32)
        if states:
            config = self.decoder.model.config
            self.hidden_states = arena.pool.new_zeros(count, config.d_model)

    @torch.inference_mode()
    def compute(self) -> None:
        """Run the model on the inputs."""
        states: list[Tensor] | None = None if self.hidden_states is None else []
        logits = self.decoder.step(self.inputs, self.starts, self.biases, self.pool, self.direct, states)
        # A stable sort, because topk does not define the order of equal values.
        ordered, ids = torch.sort(self.decoder.model.log_softmax(logits), dim=-1, descending=True, stable=True)
        # Ids are the lower words of 64-bit numbers, so that one operation packs them with the bits of the log-probs.
        lower = ids.view(self.word)[:, :: ids.itemsize // self.word.itemsize]
        torch.stack((lower[:, : self.top_k], ordered.view(self.word)[:, : self.top_k]), out=self.best)
        if states:
            self.hidden_states.copy_(states[0])  # type: ignore[union-attr]

    def copy_out(self) -> None:
        """Copy ids and log-probs to the host."""
        self.host.copy_(self.best, non_blocking=True)


class GraphBackend(TorchBackend):
    """A model on a CUDA device whose forward passes are captured as CUDA graphs.

    `record` captures a function and returns its replay, and `wait` waits for the device; `idle_bytes` is the maximum
    size of idle arenas. Raises NoKernelError without compiled code, which writes the inputs of passes.
    """

    def __init__(
        self, model: Transformer, *, record: Recorder | None = None, wait: Function | None = None, idle_bytes: int = 0
    ) -> None:
        super().__init__(model)
        self.record, self.wait = record or CudaGraphs(), wait or self._synchronize
        self.decoder = PathDecoder(model)
        self.computing = Lock()
        total = torch.cuda.get_device_properties(self.device).total_memory if self.device.type == "cuda" else 1 << 30
        self.idle_bytes = idle_bytes or int(IDLE_SHARE * total)
        # No lock: sessions release arenas when garbage-collected, which may happen anywhere, also in `acquire`.
        self.idle_arenas: deque[Arena] = deque()  # most recently used last

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int, states: bool = False) -> GraphRunner:
        """Encode the sources in an arena; see `Backend.open`."""
        longest = max((len(self.model.config.encoder_ids(source)) for source in sources), default=1)
        runner = GraphRunner(self, self.acquire(Shape.of(len(sources), longest)), top_k, states)
        runner.join(sources)
        return runner

    @torch.inference_mode()
    def record_common(self) -> None:
        """Record the encoder and the passes of common sizes, so that queries find them, as far as memory goes."""
        arenas: list[Arena] = []
        try:
            for rows, sizes in COMMON.items():
                arenas.append(arena := self.acquire(Shape.of(rows, 1)))
                arena.encoder.start([0], source_batch(self.model, [[BOS]]))
                self.run(arena.encoder)
                for size, path in product(sizes, COMMON_PATHS):
                    top_k = min(CANDIDATES, self.model.config.vocab_size)
                    self.run(arena.recorded_pass(*size, path, top_k, False))
        except torch.cuda.OutOfMemoryError:  # the larger ones may not be needed
            if not arenas or arenas[-1].shape.rows == 1:
                raise
            arenas.pop()
        self.release_arenas(arenas)

    def run(self, recorded: Recorded) -> None:
        """Copy the inputs in, launch a computation, which is recorded the first time, copy out and wait."""
        recorded.buffer.copy_(recorded.staging, non_blocking=True)
        if recorded.replay is None:
            recorded.record(self.device, self.record)
        recorded.replay()  # type: ignore[misc]
        recorded.copy_out()
        self.wait()

    @torch.inference_mode()
    def acquire(self, shape: Shape) -> Arena:
        """Return an arena of this shape, an idle one if possible; what earlier sessions have left is not read."""
        for arena in reversed(tuple(self.idle_arenas)):
            if arena.shape == shape:
                with suppress(ValueError, IndexError):  # another thread was quicker
                    self.idle_arenas.remove(arena)
                    return arena
        return Arena(self.decoder, shape)

    def release_arenas(self, arenas: list[Arena]) -> None:
        """Keep arenas for later sessions, and free the least recently used ones above `idle_bytes`."""
        self.idle_arenas.extend(arenas)
        total = sum(arena.bytes for arena in list(self.idle_arenas))
        while total > self.idle_bytes:
            try:
                total -= self.idle_arenas.popleft().bytes
            except IndexError:  # another thread was quicker
                return

    def free_pages(self, start: int, stop: int) -> Sequence[int]:
        """Return pages in the order in which they become free; the last ones are taken first."""
        return range(stop - 1, start - 1, -1)


class GraphRunner(Runner):
    """One session in an arena; its queries have rows there, which later ones take over."""

    can_join = True

    def __init__(self, backend: GraphBackend, arena: Arena, top_k: int, states: bool) -> None:
        """Start without queries."""
        config = backend.model.config
        self.backend, self._keeps_states = backend, states
        self.top_k = min(top_k, config.vocab_size)
        self._candidates = min(next_power(self.top_k, CANDIDATES), config.vocab_size)
        self._held = [arena]  # a list, for it outlives this object
        self._rows: dict[int, int] = {}  # rows of the unfinished queries
        self._free_rows = list(range(arena.shape.rows - 1, -1, -1))
        self._joined = 0
        # Page 0 takes what padding writes.
        free = backend.free_pages(1, arena.shape.pages)
        self._pages = PageTable(config.vocab_size, config.max_positions, free, group=GROUP)
        weakref.finalize(self, backend.release_arenas, self._held).atexit = False

    @property
    def arena(self) -> Arena:
        """The tensors that the session computes in."""
        return self._held[0]

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sources; see `Runner.join`."""
        ids, shape = source_batch(self.backend.model, sources) if sources else torch.zeros(0, 1), self.arena.shape
        if ids.shape[1] > shape.source or len(sources) > len(self._free_rows):
            queries = len(self._rows) + len(sources)
            self._grow(source=next_power(ids.shape[1], shape.source), rows=max(rows_for(queries), shape.rows))
        encoder = self.arena.encoder
        for start in range(0, len(sources), encoder.count):
            batch = ids[start : start + encoder.count]
            rows = [self._free_rows.pop() for _ in range(len(batch))]
            with self.backend.computing:
                encoder.start(rows, batch)
                self.backend.run(encoder)
            for row in rows:
                self._pages.join(row)
                self._rows[self._joined] = row
                self._joined += 1

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Compute new nodes; see `Runner.run`."""
        if isinstance(nodes, MaskedBatch):
            raise PluginError("CUDA graphs compute no blocks of mask tokens")
        new = NewNodes.of(nodes)
        sizes = self._pages.measure(new)
        shape, path = pass_shape(sizes, self.arena.shape.rows), next_power(sizes.longest, PATH)
        if sizes.free < new.count or shape[0] * shape[1] > self.arena.shape.fresh:
            self._grow(pages=new.count - sizes.free, fresh=shape[0] * shape[1])
        with self.backend.computing:
            recorded = self.arena.recorded_pass(*shape, path, self._candidates, self._keeps_states)
            self._pages.write(new, recorded.written)
            self.backend.run(recorded)
            where = recorded.where[: new.count]
            if recorded.hidden_states is not None:  # a copy: the next pass writes there
                self.hidden_states = recorded.hidden_states[torch.from_numpy(where).to(self.backend.device)]
            ids, log_probs = recorded.ids.take(where, axis=0), recorded.log_probs.take(where, axis=0)
        return ids[:, : self.top_k], log_probs[:, : self.top_k]

    @torch.inference_mode()
    def _grow(self, *, rows: int = 0, source: int = 0, pages: int = 0, fresh: int = 0) -> None:
        """Continue in an arena with these rows, source tokens and nodes of a pass at least, and `pages` more."""
        old = self.arena
        have = old.shape
        rows, source, fresh = max(rows, have.rows), max(source, have.source), max(fresh, have.fresh)
        needed = max(have.pages + pages, rows * have.pages // have.rows)
        shape = Shape(rows, source, next_power(needed, have.pages) if needed > have.pages else needed, fresh)
        grown = self.backend.acquire(shape)
        grown.copy_from(old)
        self._pages.add(self.backend.free_pages(have.pages, shape.pages))
        self._free_rows = [*range(rows - 1, have.rows - 1, -1), *self._free_rows]
        self._held[0] = grown
        self.backend.release_arenas([old])

    def release(self, query: int) -> None:
        """Free the row and the pages of a finished query; see `Runner.release`."""
        self._pages.keep(query, ())
        self._free_rows.append(self._rows.pop(query))

    def compact(self, query: int, slots: Ints) -> None:
        """Free the pages of all other slots; see `Runner.compact`."""
        self._pages.keep(query, slots.tolist())
