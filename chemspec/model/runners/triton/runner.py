"""Backend and runner around the kernels: flat nodes, ancestors by a table of paths, one launch a pass.

Nothing is padded between queries and nothing is masked: a node reads its ancestors' slots from the table, and a query's
source from its start and length. A pass is rounded up to one of a few sizes, whose rows beyond the nodes compute
nothing that anybody reads, and is recorded as a CUDA graph, copies to and from the host included.

Shapes: R rows of a pass, D width, V vocabulary, k candidates, L decoder layers, W watched heads, S source tokens.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import pairwise
from threading import RLock
from types import ModuleType
from typing import Any

import numpy as np
import torch

from chemspec.model.int8 import quantised
from chemspec.model.runners.cuda_graphs import CudaGraphs, Function, Recorder, marked, multiple, recorded
from chemspec.model.runners.triton.pool import Numbers, Pool
from chemspec.model.runners.triton.weights import Layer, Weights, pack, supports
from chemspec.model.session import SPARSE, Floats, Ints, NodeBatch
from chemspec.model.transformer import Transformer
from chemspec.tokenizer import BOS

KERNELS = {"int8": "int8_kernels"}  # instead of `kernels`
SIZES = (1, 4, 16, *(1 << power for power in range(6, 15)))  # rows of recorded passes; larger ones are not recorded
KEPT = 64  # kinds of passes, by rows, candidates and watched heads; the one used longest ago goes
# Of the pool at first; it doubles, and then what was recorded is recorded anew.
SLOTS, SOURCES, DEPTHS = 1 << 15, 1 << 13, 256
WATCHED = 64  # source tokens to a multiple of which the attention of watched heads is padded: few sizes of a pass
# Columns of what is sent to the device for a row of the decoder, and of the encoder.
TOKEN, DEPTH, SLOT, PARENT, BASE, START, COUNT, KEYS = range(8)


class UnsupportedError(Exception):
    """A model that the kernels do not compute, or a machine that cannot run them."""


def rounded(count: int) -> int:
    """Return the rows of the pass that computes so many."""
    return next((size for size in SIZES if size >= count), count)


class TritonBackend:
    """A model's weights on a GPU, and the memory of its sessions; safe to share between threads, which take turns.

    Args:
        model: in fp32, on the CPU.
        device: a CUDA device; anything else is for tests.
        dtype: "fp32", "bf16" (products) or "int8" (see `chemspec.model.int8`), with the same bits in any company each.
        operations: what computes; default: the kernels for this precision.
        record: turns a function into one that does the same again; default: CUDA graphs.

    Raises:
        UnsupportedError: if Triton is missing, or the kernels do not compute this architecture.
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
        if config.beyond and dtype == "int8":
            raise UnsupportedError(f"the kernels in int8 were not written for {config.beyond[0]}")
        if not supports(config):
            width = f"{config.d_model} features, {config.heads} heads in {config.inner_width}"
            raise UnsupportedError(f"the kernels take widths in steps of 32, not {width}")
        if operations is None:
            try:
                operations = import_module(f"chemspec.model.runners.triton.{KERNELS.get(dtype, 'kernels')}")
            except ImportError as error:
                raise UnsupportedError(f"Triton cannot be imported ({error}); pip install 'chemspec[gpu]'") from error
        self.operations, self.record = operations, record or (CudaGraphs() if device.type == "cuda" else None)
        self.config, self.device, self.dtype = config, device, dtype
        self.weights: Weights = pack(model, device, dtype=dtype)
        self.pool = Pool(
            config.decoder_layers,
            config.inner_width,
            device,
            slots=SLOTS if device.type == "cuda" else 64,
            sources=SOURCES if device.type == "cuda" else 64,
            depths=min(DEPTHS, config.max_positions) if device.type == "cuda" else 8,
        )
        self.computing = RLock()
        self.overlaps = device.type == "cuda"
        self._passes: dict[Any, list[RecordedPass]] = {}  # those of a size that nobody uses now
        self._encoding: RecordedPass | None = None  # the last

    def open(
        self,
        sources: Sequence[Sequence[int]],
        *,
        top_k: int,
        heads: Sequence[tuple[int, int]] = (),
        states: bool = False,
    ) -> TritonRunner:
        """Encode the sources; see `session.Backend.open`."""
        runner = TritonRunner(self, min(top_k, self.config.vocab_size), sorted(heads), states)
        runner.join(sources)
        return runner

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[Numbers, Numbers]:
        """Encode sources into a range of the pool; returns of each where its tokens begin there, and how many."""
        sources = [self.config.read(source) for source in sources]
        lengths = np.array([len(source) for source in sources], dtype=np.int32)
        with self.computing, torch.inference_mode():
            begin, first = self.pool.take_sources(max(1, int(lengths.sum()))), 0
            starts = (begin + np.cumsum(lengths) - lengths).astype(np.int32)
            while first < len(sources):  # as many sources at once as fit into the largest recorded pass
                last = first + 1
                while last < len(sources) and lengths[first : last + 1].sum() <= SIZES[-1]:
                    last += 1
                self._encode(sources[first:last], lengths[first:last], int(starts[first]))
                first = last
        return starts, lengths

    def _encode(self, sources: Sequence[Sequence[int]], lengths: Numbers, begin: int) -> None:
        count = int(lengths.sum())
        columns = np.zeros((8, rounded(count)), dtype=np.int32)
        columns[TOKEN, :count] = np.fromiter((token for source in sources for token in source), dtype=np.int32)
        firsts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        columns[DEPTH, :count] = np.arange(count) - firsts
        columns[SLOT, :count] = begin + np.arange(count)
        columns[PARENT] = np.arange(columns.shape[1])  # its own row, where keys and values of this pass lie
        columns[START, :count] = firsts
        columns[COUNT] = 1
        columns[COUNT, :count] = np.repeat(lengths, lengths)
        # What comes later on the stream finds it done; only its buffers may not be filled again before.
        if self._encoding is not None:
            self._encoding.finish()
            self._encoding.give_back()
        self._encoding = self.start(("encode", columns.shape[1]), columns, lambda: EncoderPass(self, columns.shape[1]))

    def start(self, key: Any, columns: Numbers, make: Callable[[], RecordedPass]) -> RecordedPass:
        """Let the pass of a key be computed on these rows; it is recorded when it comes again.

        Nobody else gets it until it is given back: two passes of one size may be under way at once.
        """
        key, free = (self.pool.version, *key), None
        if columns.shape[1] in SIZES:
            free = self._passes.pop(key, None)
            if free is None:
                current = [old for old in self._passes.items() if old[0][0] == self.pool.version]
                self._passes, free = dict(current[-KEPT + 1 :]), []
            self._passes[key] = free  # the last used is last
        found = free.pop() if free else make()
        found.home = free
        found.start(columns, self.record)
        return found


class RecordedPass:
    """One size of a pass: inputs and outputs at fixed addresses, the computation between them, and its recording."""

    def __init__(self, backend: TritonBackend, rows: int) -> None:
        """Make room.

        Args:
            backend: weights and pool.
            rows: R.
        """
        config, device = backend.config, backend.device
        self.backend, self.operations, self.weights = backend, backend.operations, backend.weights
        self.host = torch.zeros(8, rows, dtype=torch.int32, pin_memory=device.type == "cuda")
        self.inputs = torch.zeros(8, rows, dtype=torch.int32, device=device)
        width = config.d_model
        self.x = torch.zeros(rows, width, device=device)
        self.q, self.y = (torch.zeros(rows, config.inner_width, device=device) for _ in range(2))
        self.inner = torch.zeros(rows, config.feedforward, device=device)
        self.halves = torch.zeros(rows, 2 * config.feedforward, device=device) if config.gated else self.inner
        self.parts = torch.zeros(0, device=device)
        slices = self.weights.stacks[1][0].down.slices
        if slices > 1:
            self.parts = torch.zeros(slices, rows, width, device=device)
        self.replay: Function | None = None
        self.wait: Function | None = None
        self.home: list[RecordedPass] | None = None
        self.times = 0

    def start(self, columns: Numbers, record: Recorder | None) -> None:
        """Send the rows (8, R) and let them be computed."""
        self.host.copy_(torch.from_numpy(columns))
        self.times += 1
        if self.replay is None and self.times > 1 and record is not None:
            self.replay = recorded(self.compute, self.inputs.device, record)
        with torch.cuda.device(self.inputs.device) if self.inputs.is_cuda else nullcontext():
            (self.replay or self.compute)()
        self.wait = marked(self.inputs.device)

    def finish(self) -> None:
        """Wait until results are on the host; who has read them calls `give_back`."""
        assert self.wait is not None
        self.wait()

    def give_back(self) -> None:
        """Let others use it."""
        if self.home is not None:
            self.home.append(self)

    def compute(self) -> None:
        """Copy the inputs, run the model and copy the outputs."""
        raise NotImplementedError

    def embed(self, target: bool) -> None:
        """Embed the tokens, and run what stands between them and the first layer."""
        given, weights = self.inputs, self.weights
        self.operations.embed(given[TOKEN], given[DEPTH], weights.tables[target], weights.positions[target], self.x)
        if (norm := weights.embedding_norms[target]) is not None:
            self.operations.settle(self.x, self.x, parts=None, bias=norm.shift, norm=norm)

    def biases(self, target: bool) -> dict[str, Any]:
        """Return what attention to a stack's own text is told of distances."""
        bias = self.weights.distances[target]
        return {} if bias is None else {"places": self.inputs[DEPTH], "bias": bias}

    def feed(self, layer: Layer) -> None:
        """Run the feed-forward sub-layer, and what stands between it and the next."""
        norm, operations, config = layer.norms[-1], self.operations, self.backend.config
        before, activation = norm if config.norm_first else None, config.activation
        operations.linear(self.x, layer.up, self.halves, norm=before, activation="" if config.gated else activation)
        if config.gated:
            operations.gate(self.halves, self.inner, activation=activation)
        after = None if config.norm_first else norm
        if layer.down.slices > 1:
            operations.linear(self.inner, layer.down, self.parts)
            operations.settle(self.x, self.x, parts=self.parts, bias=layer.down.bias, norm=after)
        else:
            operations.linear(self.inner, layer.down, self.x, add=True)
            self.after(layer, -1)

    def after(self, layer: Layer, which: int) -> None:
        """Norm what a sub-layer of a post-norm model has added."""
        if not self.backend.config.norm_first:
            self.operations.settle(self.x, self.x, parts=None, bias=layer.out.bias, norm=layer.norms[which])

    def before(self, layer: Layer, which: int) -> Any:
        """Return the norm in front of a sub-layer of a pre-norm model."""
        return layer.norms[which] if self.backend.config.norm_first else None


class EncoderPass(RecordedPass):
    """Source tokens to keys and values for the cross-attention of every decoder layer."""

    def __init__(self, backend: TritonBackend, rows: int) -> None:
        super().__init__(backend, rows)
        self.scratch = torch.zeros(2, rows, backend.config.inner_width, device=backend.device)

    def compute(self) -> None:
        """Encode."""
        self.inputs.copy_(self.host, non_blocking=True)
        given, weights, operations = self.inputs, self.weights, self.operations
        heads, biases = self.backend.config.heads, self.biases(False)
        self.embed(False)
        for layer in weights.stacks[0]:
            operations.linear(
                self.x, layer.qkv, self.q, norm=self.before(layer, 0), cache=self.scratch, slots=given[PARENT]
            )
            operations.attend(self.q, self.scratch, given[START], given[COUNT], self.y, heads=heads, **biases)
            operations.linear(self.y, layer.out, self.x, add=True)
            self.after(layer, 0)
            self.feed(layer)
        for matrix, cache in zip(weights.memory, self.backend.pool.source, strict=True):
            operations.linear(self.x, matrix, self.q, norm=weights.last[0], cache=cache, slots=given[SLOT])


class DecoderPass(RecordedPass):
    """New nodes to their best next tokens."""

    def __init__(
        self, backend: TritonBackend, rows: int, top_k: int, heads: Sequence[tuple[int, int]], states: bool, length: int
    ) -> None:
        """Make room.

        Args:
            backend: weights and pool.
            rows: R.
            top_k: k.
            heads: (layer, head) to watch, rising.
            states: whether the last hidden states are wanted.
            length: S, at most so many source tokens of a query; read only where heads are watched.
        """
        super().__init__(backend, rows)
        device, pinned = backend.device, backend.device.type == "cuda"
        self.logits = torch.zeros(rows, backend.config.vocab_size, device=device)
        self.found = torch.zeros(rows, top_k, dtype=torch.int32, device=device), torch.zeros(rows, top_k, device=device)
        self.results = tuple(torch.zeros(rows, top_k, dtype=one.dtype, pin_memory=pinned) for one in self.found)
        self.states = torch.zeros_like(self.x) if states else None
        self.watched = [
            [torch.tensor([head], dtype=torch.int32, device=device) for own, head in heads if own == layer]
            for layer in range(backend.config.decoder_layers)
        ]
        self.attention = [torch.zeros(rows, 1, length, device=device) for _ in heads]

    def compute(self) -> None:
        """Decode."""
        self.inputs.copy_(self.host, non_blocking=True)
        given, weights, operations, pool = self.inputs, self.weights, self.operations, self.backend.pool
        heads, biases = self.backend.config.heads, self.biases(True)
        self.embed(True)
        operations.paths(given[DEPTH], given[SLOT], given[PARENT], given[BASE], pool.table)
        views = iter(self.attention)
        for index, layer in enumerate(weights.stacks[1]):
            assert layer.cross is not None and layer.cross_out is not None
            cache, source = pool.cache[index], pool.source[index]
            operations.linear(self.x, layer.qkv, self.q, norm=self.before(layer, 0), cache=cache, slots=given[SLOT])
            operations.attend(self.q, cache, given[SLOT], given[KEYS], self.y, heads=heads, table=pool.table, **biases)
            operations.linear(self.y, layer.out, self.x, add=True)
            self.after(layer, 0)
            operations.linear(self.x, layer.cross, self.q, norm=self.before(layer, 1))
            for head in self.watched[index]:
                operations.watch(self.q, source, given[START], given[COUNT], head, next(views), heads=heads)
            operations.attend(self.q, source, given[START], given[COUNT], self.y, heads=heads)
            operations.linear(self.y, layer.cross_out, self.x, add=True)
            self.after(layer, 1)
            self.feed(layer)
        last = weights.last[1]
        if self.states is not None:
            operations.settle(self.x, self.states, parts=None, bias=weights.output.bias, norm=last)
        operations.linear(self.x, weights.output, self.logits, norm=last)
        if weights.forced is not None:
            torch.where((given[DEPTH] == 0)[:, None], weights.forced, self.logits, out=self.logits)
        operations.best(self.logits, *self.found)
        for result, found in zip(self.results, self.found, strict=True):
            result.copy_(found, non_blocking=True)


@dataclass
class _Held:
    """What a session holds of the pool.

    Attributes:
        counts: nodes of each query.
        slots: theirs, in order (queries, most nodes).
        ranges: of source tokens, by their starts: how many queries in each are not finished.
    """

    counts: Ints
    slots: Numbers
    ranges: dict[int, int] = field(default_factory=dict)


class TritonRunner:
    """One session: which slots of the pool are its queries' nodes.

    Attributes:
        hidden_states: last hidden states of the last pass (R, D), if they are kept.
        attention: of the watched heads in the last pass (R, W, S) without bos and eos, if there are any.
    """

    compaction_threshold = SPARSE
    attention: Floats | None = None
    hidden_states: Any = None

    def __init__(self, backend: TritonBackend, top_k: int, heads: Sequence[tuple[int, int]], states: bool) -> None:
        """Start with no queries.

        Args:
            backend: weights and pool.
            top_k: candidates kept per node.
            heads: (layer, head) of the cross-attention to watch, rising.
            states: whether to keep the last hidden states.
        """
        self.backend, self.top_k = backend, top_k
        self._heads, self._keeps_states = tuple(heads), states
        # Of each query, where its source tokens begin in the pool, and how many there are, with bos and eos if these
        # are read.
        self._starts = self._lengths = np.zeros(0, dtype=np.int32)
        self._held = _Held(np.zeros(0, dtype=np.int64), np.zeros((0, 32), dtype=np.int32))
        self._range_of: list[int] = []  # of the pool, of each query: those that came together share one
        weakref.finalize(self, _give_back, backend.pool, self._held).atexit = False

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sources; see `session.JoinableRunner`."""
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
        """Compute new nodes; see `session.Runner.run`."""
        return self.start(nodes)()

    @torch.inference_mode()
    def start(self, nodes: NodeBatch) -> Callable[[], tuple[Ints, Floats]]:
        """Let new nodes be computed; see `session.DeferredRunner`."""
        assert not nodes.blocks, "a Spec-Drafter's network runs in torch here"
        count = len(nodes.tokens)
        queries, parents = np.array(nodes.queries), np.array(nodes.parents)
        old = self._held.counts[queries]  # nodes that the query of each new one has already
        begins = np.flatnonzero(np.diff(queries, prepend=-1))
        firsts = np.repeat(begins, np.diff(np.append(begins, count)))  # row of the first new node of its query
        columns = np.zeros((8, rounded(count)), dtype=np.int32)
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
            self._enter(queries, old + np.arange(count) - firsts, taken)
            length = int(self._lengths.max())
            room = multiple(length, WATCHED) if self._heads else 0
            key = (columns.shape[1], self.top_k, self._heads, self._keeps_states, room)
            done = self.backend.start(key, columns, lambda: DecoderPass(self.backend, *key))
        assert isinstance(done, DecoderPass)
        return partial(self._finish, done, count, length)

    @torch.inference_mode()
    def _finish(self, done: DecoderPass, count: int, length: int) -> tuple[Ints, Floats]:
        done.finish()
        if done.states is not None:
            # In the precision of the networks that read them; a copy, because the next pass writes there.
            kind = torch.bfloat16 if self.backend.dtype == "bf16" else torch.float32
            self.hidden_states = done.states[:count].to(kind, copy=True)
        if self._heads:
            seen = torch.cat(done.attention, dim=1)[:count].cpu().numpy()
            self.attention = seen[..., len(self.backend.config.before_source) : length]
        ids, log_probs = (result[:count].numpy().copy() for result in done.results)
        done.give_back()
        return ids.astype(np.int64), log_probs

    def _enter(self, queries: Ints, places: Ints, slots: Numbers) -> None:
        held, wanted = self._held, int(places.max()) + 1
        have = held.slots.shape[1]
        if wanted > have:
            held.slots = np.pad(held.slots, ((0, 0), (0, 2 * wanted - have)))
        held.slots[queries, places] = slots
        np.add.at(held.counts, queries, 1)

    def release(self, query: int) -> None:
        """Free what a finished query holds; see `session.Runner`."""
        self._give(query, np.zeros(0, dtype=np.int64))
        ranges, begin = self._held.ranges, self._range_of[query]
        ranges[begin] -= 1
        if not ranges[begin]:
            del ranges[begin]
            self.backend.pool.give_back(begin)

    def compact(self, query: int, slots: Ints) -> None:
        """Free all but these slots; see `session.Runner.compact`."""
        self._give(query, slots)

    def _give(self, query: int, kept: Ints) -> None:
        """Give a query's slots back to the pool, but for those kept."""
        held = self._held
        own = held.slots[query, : held.counts[query]].copy()
        held.slots[query, : len(kept)] = own[kept]
        held.counts[query] = len(kept)
        self.backend.pool.give_back(np.delete(own, kept))


def _give_back(pool: Pool, held: _Held) -> None:
    """Give back all that a session held that is gone."""
    pool.give_back(held.slots[np.arange(held.slots.shape[1]) < held.counts[:, None]])
    for begin in held.ranges:
        pool.give_back(begin)


# Nats by which a trial's log-probs may differ from torch's.
TRIAL = {"fp32": 1e-3, "bf16": 0.3, "int8": 1e-5}


def checked(model: Transformer, device: torch.device, dtype: str, **options: Any) -> TritonBackend:
    """Return a backend that has computed a few passes as torch does.

    Args:
        model: in fp32, on the CPU.
        device: a CUDA device.
        dtype: a name in `TRIAL`.
        options: of `TritonBackend`.

    Raises:
        UnsupportedError: saying what is not supported, or how far the scores were off.
    """
    if dtype not in TRIAL:
        raise UnsupportedError(f"the kernels compute in {', '.join(TRIAL)}, not in {dtype}")
    try:
        backend = TritonBackend(model, device, dtype=dtype, **options)
        judge = quantised(model) if dtype == "int8" else model
        text = [BOS, *(4 + place % max(1, model.config.vocab_size - 4) for place in range(12))]
        source = text[1:]
        read = model.config.read(source)
        with torch.inference_mode():
            expected = torch.log_softmax(judge(torch.tensor([read]), torch.tensor([text]))[0].float(), dim=1).numpy()
        worst = 0.0
        for parts in ((0, 1, 13), (0, 3, 7, 13), (0, 13)):  # a recording is made when a size comes again
            runner = backend.open([source], top_k=5)
            for start, stop in pairwise(parts):
                depths = list(range(start, stop))
                nodes = NodeBatch([0] * len(depths), text[start:stop], depths, [depth - 1 for depth in depths])
                ids, log_probs = runner.run(nodes)
                worst = max(worst, float(np.abs(log_probs - np.take_along_axis(expected[start:stop], ids, 1)).max()))
    except UnsupportedError:
        raise
    except Exception as error:  # whatever a compiler or a driver raises
        raise UnsupportedError(f"the kernels cannot run here: {error}") from error
    if not worst <= TRIAL[dtype]:
        raise UnsupportedError(f"the kernels' log-probs differ from torch's by {worst:g}")
    return backend


__all__ = ["TritonBackend", "TritonRunner", "UnsupportedError", "checked", "rounded"]
