"""Backend and runner around the compiled kernel."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chemspec.model.runners.native.build import kernel
from chemspec.model.session import SPARSE, Floats, Ints, KernelPass, NodeBatch
from chemspec.model.weights import Array, Weights, quantise_rows
from chemspec.settings import ModelConfig
from chemspec.system.compiled import NoKernelError as NoKernelError

if TYPE_CHECKING:
    from chemspec.model.transformer import Transformer

QKV, OUT, CROSS, CROSS_OUT, FFN_UP, FFN_DOWN, MEMORY, OUTPUT, FFN_GATE = range(9)
FLOAT32, FLOAT16, BFLOAT16 = range(3)  # formats of weights, as the kernel numbers them
LAST, FIRST = 3, 4  # the norms after a stack's last layer and before its first
ACTIVATIONS = {"relu": 1, "gelu": 2, "gelu_tanh": 3}  # as the kernel numbers them
LANES = 16  # of a vector; each belongs to a head
# For int8, numbered as in the kernel; of those that work here the last is taken (AMX and NEON: not timed yet).
INSTRUCTIONS = ("plain", "avx2", "avx-vnni", "avx512-vnni", "amx", "neon-dot")


def supports(config: ModelConfig) -> bool:
    """Whether the kernel computes this architecture: whole vectors of 16, with the same heads in each."""
    return config.d_model % LANES == 0 and config.heads <= LANES


def padded_heads(heads: int, width: int, *, int8: bool) -> int:
    """Return how many heads are computed, the last of them empty, for a number whose features fill no whole vectors.

    In int8 the order of the sums is a matter of definition, see `chemspec.model.int8.attention`.
    """
    fits = [lanes for lanes in (1, 2, 4, 8, LANES) if lanes >= heads and lanes * width % LANES == 0]
    return LANES if int8 and fits[0] != heads else fits[0]


class NativeBackend:
    """A model's weights packed for the kernel; safe to share between threads, which take turns.

    Attributes:
        instructions: what multiplies in int8, of `INSTRUCTIONS`; None in fp32.

    Raises:
        NoKernelError: if the kernel cannot be had here, or does not compute this architecture.
    """

    def __init__(
        self, model: Weights | Transformer, *, threads: int, int8: bool = False, instructions: str = ""
    ) -> None:
        """Pack a model.

        Args:
            model: its weights in fp32, or the network.
            threads: of the kernel.
            int8: whether linear layers compute in int8, see `chemspec.model.int8`.
            instructions: of `INSTRUCTIONS`, for int8; "" takes the fastest here.
        """
        self._library = kernel()
        self.run_address = ctypes.cast(self._library.chemspec_run, ctypes.c_void_p).value or 0
        self.instructions: str | None = None
        if int8:  # each is tried out, which fp32 need not wait for
            able = [name for number, name in enumerate(INSTRUCTIONS) if self._library.chemspec_has(number)]
            _check(able)  # plain C++ is everywhere
            self.instructions = instructions or able[-1]
            if self.instructions not in able:
                raise NoKernelError(f"no {instructions} here; there are {', '.join(able)}")
        weights = model if isinstance(model, Weights) else model.weights
        config = weights.config
        if not supports(config):
            raise NoKernelError(f"not written for {config.heads} heads in {config.d_model} features")
        self.config = config
        # Features are reordered so that the heads lie side by side: feature i of head h at i * heads + h. Those of
        # empty heads are zeros, for which the order has the number of a row that is added last.
        head = config.inner_width // config.heads
        heads = padded_heads(config.heads, head, int8=int8)
        order = np.full((heads, head), config.inner_width)
        order[: config.heads] = np.arange(config.inner_width).reshape(config.heads, head)
        self._order = order.T.ravel()
        sizes = (
            config.d_model,
            heads,
            config.feedforward,
            config.vocab_size,
            config.encoder_layers,
            config.decoder_layers,
            ACTIVATIONS[config.activation],
            config.norm_first,
            config.final_norms,
            len(self._order),
            config.max_positions,
            config.embedding_norm,
            not config.rms_norm,
            config.gated,
            config.relative_positions > 0,
            config.forced_first,
        )
        open_model = self._library.chemspec_model
        open_model.restype = ctypes.c_void_p
        values = np.array(sizes, dtype=np.int32)
        number = INSTRUCTIONS.index(self.instructions or "plain")
        self._model = ctypes.c_void_p(open_model(_at(values), ctypes.c_float(config.layer_norm_eps), threads, number))
        _check(self._model)
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is checked by what it computes
            self._fill(weights)

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            self._library.chemspec_model_free(self._model)

    def open(
        self,
        sources: Sequence[Sequence[int]],
        *,
        top_k: int,
        heads: Sequence[tuple[int, int]] = (),
        states: bool = False,
    ) -> NativeRunner:
        """Encode the sources and start an empty cache for each.

        Args:
            sources: token ids of every query.
            top_k: candidates kept per node.
            heads: (layer, head) of the cross-attention to watch.
            states: whether to keep the last hidden states.
        """
        opened = self._library.chemspec_open
        opened.restype = ctypes.c_void_p
        session = ctypes.c_void_p(opened(self._model))
        _check(session)
        runner = NativeRunner(self, session, min(top_k, self.config.vocab_size), heads=heads, states=states)
        runner.join(sources)
        return runner

    def _fill(self, weights: Weights) -> None:
        config = self.config
        scale = config.d_model**0.5 if config.scale_embedding else 1.0
        tables = [weights["embedding.weight"] * scale, weights.target_table * scale]
        tables += [weights.positions, weights.target_positions]
        if config.relative_positions:
            tables += [self._distances(weights[f"{stack}.distances"]) for stack in ("encoder", "decoder")]
        for which, table in enumerate(map(np.ascontiguousarray, tables)):
            _check(self._library.chemspec_table(self._model, which, _at(table), len(table)))
        memory, inner = [], len(self._order)
        for number, (stack, depth) in enumerate(
            (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))
        ):
            for index in range(depth):
                layer = f"{stack}.layers.{index}"
                self._linear(number, index, QKV, *self._projection(weights, f"{layer}.self_attn"))
                self._linear(number, index, OUT, *self._joined(weights, f"{layer}.self_attn"))
                if number:
                    weight, bias = self._projection(weights, f"{layer}.multihead_attn")
                    self._linear(number, index, CROSS, weight[:inner], bias[:inner])
                    self._linear(number, index, CROSS_OUT, *self._joined(weights, f"{layer}.multihead_attn"))
                    memory.append((weight[inner:], bias[inner:]))
                weight, bias = _both(weights, f"{layer}.linear1")
                self._linear(number, index, FFN_UP, weight[: config.feedforward], bias[: config.feedforward])
                if config.gated:
                    self._linear(number, index, FFN_GATE, weight[config.feedforward :], bias[config.feedforward :])
                self._linear(number, index, FFN_DOWN, *_both(weights, f"{layer}.linear2"))
                for which in range(2 + number):
                    self._norm(number, index, which, weights, f"{layer}.norm{which + 1}")
            if config.embedding_norm:
                self._norm(number, 0, FIRST, weights, f"{stack}.embedding_norm")
            if config.final_norms:
                self._norm(number, 0, LAST, weights, f"{stack}.norm")
        self._linear(0, 0, MEMORY, *(np.concatenate(parts) for parts in zip(*memory, strict=True)))
        self._linear(0, 0, OUTPUT, weights.output, weights["output.bias"] if config.output_bias else None)

    def _projection(self, weights: Weights, name: str) -> tuple[Array, Array]:
        """Return weights and biases of queries, keys and values, their features reordered."""
        parts = []
        for kind in ("weight", "bias"):
            three = np.split(weights[f"{name}.in_proj_{kind}"], 3)
            parts.append(np.concatenate([self._reordered(part) for part in three]))
        return parts[0], parts[1]

    def _joined(self, weights: Weights, name: str) -> tuple[Array, Array]:
        """Return the projection that reads reordered features."""
        weight, bias = _both(weights, f"{name}.out_proj")
        return np.ascontiguousarray(self._reordered(weight.T).T), bias

    def _reordered(self, features: Array) -> Array:
        """Return rows, one a feature, in the kernel's order; zeros for those of empty heads."""
        found: Array = np.concatenate([features, np.zeros_like(features[:1])])[self._order]
        return found

    def _distances(self, table: Array) -> Array:
        """Return biases of the scores by distance, of each lane those of its head, from the farthest key before on."""
        farthest, reach = len(table) // 2, self.config.max_positions - 1
        heads = len(self._order) * self.config.heads // self.config.inner_width
        wide = np.zeros((len(table), heads), np.float32)
        wide[:, : self.config.heads] = table
        places = np.arange(-reach, reach + 1).clip(-farthest, farthest) + farthest
        lanes: Array = np.tile(wide, LANES // heads)[places]
        return lanes

    def _linear(self, stack: int, layer: int, which: int, weight: Any, bias: Any | None) -> None:
        weight = np.ascontiguousarray(weight)
        bias = None if bias is None else np.ascontiguousarray(bias)  # alive until the call returns
        if self.instructions:
            whole, scale = quantise_rows(weight)
            size = (stack, layer, which, *weight.shape)
            offset = None if bias is None else _at(bias)
            _check(self._library.chemspec_linear_int8(self._model, *size, _at(whole), _at(scale), offset))
            return
        weight16, kind = _in_16_bits(weight)
        rows, columns = weight.shape
        _check(
            self._library.chemspec_linear(
                self._model,
                stack,
                layer,
                which,
                rows,
                columns,
                _at(weight),
                None if bias is None else _at(bias),
                None if weight16 is None else _at(weight16),
                kind,
            )
        )

    def _norm(self, stack: int, layer: int, which: int, weights: Weights, name: str) -> None:
        scale = weights[f"{name}.weight"]
        shift = np.zeros_like(scale) if self.config.rms_norm else weights[f"{name}.bias"]
        _check(self._library.chemspec_norm(self._model, stack, layer, which, _at(scale), _at(shift)))


class NativeRunner:
    """The kernel's side of one session: every node visits its ancestors only, and nothing is padded.

    Attributes:
        hidden_states: last hidden states of the last pass, (R, D), if they are kept.
        attention: of the watched heads in the last pass, (R, H, S) without bos and eos, if there are any.
    """

    compaction_threshold = SPARSE

    def __init__(
        self,
        backend: NativeBackend,
        session: ctypes.c_void_p,
        top_k: int,
        *,
        heads: Sequence[tuple[int, int]],
        states: bool,
    ) -> None:
        """Take over a session of the kernel's, which has no queries yet.

        Args:
            backend: the packed weights.
            session: the kernel's handle.
            top_k: candidates kept per node.
            heads: (layer, head) of the cross-attention to watch.
            states: whether to keep the last hidden states.
        """
        self.backend, self.top_k = backend, top_k
        self.hidden_states: NDArray[np.float32] | None = None
        self.attention: NDArray[np.float32] | None = None
        self._keeps_states = states
        self._length = 0  # tokens of the longest source, bos and eos included where the model reads them
        self._heads = np.array(sorted(heads), dtype=np.int32).reshape(-1, 2)
        self._library, self._session = backend._library, session
        self.kernel_pass = KernelPass(backend.run_address, session.value or 0, top_k)
        self._best_ids, self._best_log_probs = (ctypes.c_int32 * 0)(), (ctypes.c_float * 0)()  # of `run_at`

    def __del__(self) -> None:
        if hasattr(self, "_session"):  # not where Ctrl-C came before
            self._library.chemspec_close(self._session)

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sources; see `session.JoinableRunner`."""
        sources = [self.backend.config.read(source) for source in sources]
        lengths, tokens = array("i", map(len, sources)), array("i", chain.from_iterable(sources))
        starts = (ctypes.c_void_p(column.buffer_info()[0]) for column in (tokens, lengths))
        _check(self._library.chemspec_join(self._session, *starts, len(sources)))
        self._length = max([self._length, *lengths])

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Compute new nodes; see `session.Runner.run`."""
        columns = (nodes.queries, nodes.tokens, nodes.depths, nodes.parents, nodes.blocks or nodes.queries)
        given = np.array(columns, dtype=np.int32)
        count = given.shape[1]
        ids = np.empty((count, self.top_k), dtype=np.int32)
        log_probs = np.empty((count, self.top_k), dtype=np.float32)
        start, step = given.ctypes.data, given.strides[0]
        heads, attention = len(self._heads), None
        if heads:
            attention = np.zeros((count, heads, self._length), dtype=np.float32)
            self.attention = attention[..., len(self.backend.config.before_source) :]
        if self._keeps_states:
            self.hidden_states = np.empty((count, self.backend.config.d_model), dtype=np.float32)
        _check(
            self._library.chemspec_run(
                self._session,
                count,
                *(ctypes.c_void_p(start + step * i) for i in range(4)),
                ctypes.c_void_p(start + step * 4) if nodes.blocks else None,
                self.top_k,
                _at(ids),
                _at(log_probs),
                None if self.hidden_states is None else _at(self.hidden_states),
                _at(self._heads),
                heads,
                None if attention is None else _at(attention),
                self._length,
            )
        )
        return ids, log_probs  # type: ignore[return-value]

    def run_at(self, columns: int, count: int) -> tuple[int, int, int]:
        """Compute new nodes; see `session.AddressRunner`. Attention and hidden states are not kept."""
        size = count * self.top_k
        if size > len(self._best_ids):
            self._best_ids, self._best_log_probs = (ctypes.c_int32 * (2 * size))(), (ctypes.c_float * (2 * size))()
        ids, log_probs = ctypes.addressof(self._best_ids), ctypes.addressof(self._best_log_probs)
        at = ctypes.c_void_p
        given = (at(columns), at(columns + 4 * count), at(columns + 8 * count), at(columns + 12 * count))
        into = at(ids), at(log_probs)
        _check(
            self._library.chemspec_run(self._session, count, *given, None, self.top_k, *into, None, None, 0, None, 0)
        )
        return ids, log_probs, self.top_k

    def release(self, query: int) -> None:
        """Free what a finished query holds; see `session.Runner`."""
        self._library.chemspec_release(self._session, query)

    def compact(self, query: int, slots: Ints) -> None:
        """Move slots to the front; see `session.Runner.compact`."""
        kept = slots.astype(np.int32)
        _check(self._library.chemspec_compact(self._session, query, _at(kept), len(kept)))


def _both(weights: Weights, name: str) -> tuple[Array, Array]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def _in_16_bits(weight: NDArray[np.float32]) -> tuple[NDArray[np.uint16] | None, int]:
    """The weights in 16 bits if that is exact, and the kernel's number for the format."""
    bits = weight.view(np.uint32)
    if not (bits & 0xFFFF).any():
        return (bits >> 16).astype(np.uint16), BFLOAT16
    with np.errstate(over="ignore"):
        weight16 = weight.astype(np.float16)
    exact = bool((weight16.astype(np.float32) == weight).all())
    return (weight16.view(np.uint16), FLOAT16) if exact else (None, FLOAT32)


def _at(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _check(done: Any) -> None:
    if not done or (isinstance(done, ctypes.c_void_p) and not done.value):
        raise MemoryError("there is not enough memory for this batch; make it smaller")
