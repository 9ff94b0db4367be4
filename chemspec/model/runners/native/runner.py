"""Backend and runner around the compiled kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chemspec.model.runners.native.build import kernel
from chemspec.model.session import SPARSE, Floats, Ints, NodeBatch
from chemspec.model.weights import Array, Weights, quantised
from chemspec.settings import ModelConfig
from chemspec.system.compiled import NoKernelError as NoKernelError
from chemspec.tokenizer import BOS, EOS

if TYPE_CHECKING:
    from chemspec.model.transformer import Transformer

QKV, OUT, CROSS, CROSS_OUT, FFN_UP, FFN_DOWN, MEMORY, OUTPUT = range(8)
FLOAT32, FLOAT16, BFLOAT16 = range(3)  # formats of weights, as the kernel numbers them
LAST = 3  # the norm after a stack's last layer
INSTRUCTIONS = ("plain", "avx2", "avx-vnni", "avx512-vnni")  # for int8, slow to fast, as the kernel numbers them


def supports(config: ModelConfig) -> bool:
    """Whether the kernel computes this architecture: whole vectors of 16, with the same heads in each."""
    return config.d_model % 16 == 0 and 16 % config.heads == 0


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
        able = [name for number, name in enumerate(INSTRUCTIONS) if self._library.chemspec_has(number)]
        self.instructions = (instructions or able[-1]) if int8 else None
        if int8 and self.instructions not in able:
            raise NoKernelError(f"no {instructions} here; there are {', '.join(able)}")
        weights = model if isinstance(model, Weights) else model.weights
        config = weights.config
        if not supports(config):
            raise NoKernelError(f"not written for {config.heads} heads in {config.d_model} features")
        self.config = config
        # Features are reordered so that the heads lie side by side: feature i of head h at i * heads + h.
        head = config.d_model // config.heads
        self._order = np.arange(config.d_model).reshape(config.heads, head).T.ravel()
        sizes = (
            config.d_model,
            config.heads,
            config.feedforward,
            config.vocab_size,
            config.encoder_layers,
            config.decoder_layers,
            config.activation == "gelu",
            config.norm_first,
            config.final_norms,
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
        if self.config.source_specials:
            sources = [(BOS, *source, EOS) for source in sources]
        lengths = np.array([len(source) for source in sources], dtype=np.int32)
        tokens = np.fromiter((token for source in sources for token in source), dtype=np.int32)
        opened = self._library.chemspec_open
        opened.restype = ctypes.c_void_p
        session = ctypes.c_void_p(opened(self._model, _at(tokens), _at(lengths), len(sources)))
        _check(session)
        length = max(map(len, sources), default=0)
        top_k = min(top_k, self.config.vocab_size)
        return NativeRunner(self, session, top_k, heads=heads, length=length, states=states)

    def _fill(self, weights: Weights) -> None:
        config = self.config
        scale = config.d_model**0.5 if config.scale_embedding else 1.0
        tables = (weights["embedding.weight"] * scale, weights.target_table * scale, weights.positions)
        for which, table in enumerate(map(np.ascontiguousarray, tables)):
            _check(self._library.chemspec_table(self._model, which, _at(table), len(table)))
        memory = []
        for number, (stack, depth) in enumerate(
            (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))
        ):
            for index in range(depth):
                layer = f"{stack}.layers.{index}"
                self._linear(number, index, QKV, *self._projection(weights, f"{layer}.self_attn"))
                self._linear(number, index, OUT, *self._joined(weights, f"{layer}.self_attn"))
                if number:
                    weight, bias = self._projection(weights, f"{layer}.multihead_attn")
                    self._linear(number, index, CROSS, weight[: config.d_model], bias[: config.d_model])
                    self._linear(number, index, CROSS_OUT, *self._joined(weights, f"{layer}.multihead_attn"))
                    memory.append((weight[config.d_model :], bias[config.d_model :]))
                self._linear(number, index, FFN_UP, *_both(weights, f"{layer}.linear1"))
                self._linear(number, index, FFN_DOWN, *_both(weights, f"{layer}.linear2"))
                for which in range(2 + number):
                    self._norm(number, index, which, *_both(weights, f"{layer}.norm{which + 1}"))
            if config.final_norms:
                self._norm(number, 0, LAST, *_both(weights, f"{stack}.norm"))
        self._linear(0, 0, MEMORY, *(np.concatenate(parts) for parts in zip(*memory, strict=True)))
        self._linear(0, 0, OUTPUT, weights.output, weights["output.bias"] if config.output_bias else None)

    def _projection(self, weights: Weights, name: str) -> tuple[Array, Array]:
        """Return weights and biases of queries, keys and values, their features reordered."""
        width = len(self._order)
        three = np.concatenate([part * width + self._order for part in range(3)])
        return weights[f"{name}.in_proj_weight"][three], weights[f"{name}.in_proj_bias"][three]

    def _joined(self, weights: Weights, name: str) -> tuple[Array, Array]:
        """Return the projection that reads reordered features."""
        weight, bias = _both(weights, f"{name}.out_proj")
        return weight[:, self._order], bias

    def _linear(self, stack: int, layer: int, which: int, weight: Any, bias: Any | None) -> None:
        weight = np.ascontiguousarray(weight)
        bias = None if bias is None else np.ascontiguousarray(bias)  # alive until the call returns
        if self.instructions:
            whole, scale = quantised(weight)
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

    def _norm(self, stack: int, layer: int, which: int, scale: Array, shift: Array) -> None:
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
        length: int,
        states: bool,
    ) -> None:
        """Take over a session of the kernel's.

        Args:
            backend: the packed weights.
            session: the kernel's handle.
            top_k: candidates kept per node.
            heads: (layer, head) of the cross-attention to watch.
            length: tokens of the longest source, bos and eos included where the model reads them.
            states: whether to keep the last hidden states.
        """
        self.backend, self.top_k = backend, top_k
        self.hidden_states: NDArray[np.float32] | None = None
        self.attention: NDArray[np.float32] | None = None
        self._keeps_states, self._length = states, length
        self._heads = np.array(sorted(heads), dtype=np.int32).reshape(-1, 2)
        self._library, self._session = backend._library, session
        self._best_ids, self._best_log_probs = (ctypes.c_int32 * 0)(), (ctypes.c_float * 0)()  # of `run_at`

    def __del__(self) -> None:
        if hasattr(self, "_session"):  # not where Ctrl-C came before
            self._library.chemspec_close(self._session)

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
            self.attention = attention[..., int(self.backend.config.source_specials) :]
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
