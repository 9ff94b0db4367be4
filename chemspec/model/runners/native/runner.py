"""Backend and runner of the compiled CPU kernel."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chemspec.model.runner import SPARSE, Floats, Ints, KernelPass, MaskedBatch, NodeBatch, Runner
from chemspec.model.runners.native.build import load_kernel
from chemspec.model.weights import Array, Weights, quantise_rows, rotations
from chemspec.settings import ModelConfig
from chemspec.system.compiled import NoKernelError as NoKernelError
from chemspec.types import PluginError

if TYPE_CHECKING:
    from chemspec.model.transformer import Transformer

QKV, OUT, CROSS, CROSS_OUT, FFN_UP, FFN_DOWN, MEMORY_PROJECTION, OUTPUT, FFN_GATE = range(9)
AFTER_STACK, BEFORE_STACK = 3, 4  # norms after a stack's last layer and before its first
ACTIVATIONS = {"relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 6}  # numbered as in the kernel
LANES = 16  # lanes of a vector; each belongs to one head


def supports_config(config: ModelConfig) -> bool:
    """Whether the kernel supports this architecture: whole vectors of 16 lanes, with the same heads in each."""
    return config.d_model % LANES == 0 and config.heads <= LANES


class NativeBackend:
    """A model's weights packed for the kernel; safe to share between threads, which run one at a time.

    Raises NoKernelError if the kernel is not available here, or does not support this architecture.
    """

    def __init__(self, model: Weights | Transformer, *, threads: int, int8: bool = False) -> None:
        """Pack a model: the network or its weights, in fp32.

        With `int8`, linear layers compute in int8 (assets/docs/how-it-works.md).
        """
        self._library = load_kernel()
        self._library.chemspec_model.restype = self._library.chemspec_open.restype = ctypes.c_void_p
        self.run_address = ctypes.cast(self._library.chemspec_run, ctypes.c_void_p).value or 0
        self.int8 = int8
        weights = model if isinstance(model, Weights) else model.weights
        config = weights.config
        if not supports_config(config):
            raise NoKernelError(f"{config.heads} heads in {config.d_model} features are not supported")
        self.config = config
        # Features are reordered so that heads are interleaved: feature i of head h at i * heads + h. Features of
        # empty heads are zeros: their index is that of a row of zeros appended at the end.
        head = config.inner_width // config.heads
        # Empty heads pad the features to whole vectors. In int8 the order of the sums is fixed (`int8_reference.py`).
        fits = [lanes for lanes in (1, 2, 4, 8, LANES) if lanes >= config.heads and lanes * head % LANES == 0]
        heads = LANES if int8 and fits[0] != config.heads else fits[0]
        order = np.full((heads, head), config.inner_width)
        order[: config.heads] = np.arange(config.inner_width).reshape(config.heads, head)
        self._order, self._heads = order.T.ravel(), heads
        sizes = (  # the order is that of `chemspec_model`
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
            config.relative_vectors,
        )
        values = np.array(sizes, dtype=np.int32)
        eps = ctypes.c_float(config.layer_norm_eps)
        self._model = ctypes.c_void_p(self._library.chemspec_model(_address(values), eps, threads))
        _check_allocated(self._model)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is caught by checking the scores
            self._set_weights(weights)

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            self._library.chemspec_model_free(self._model)

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int, states: bool = False) -> NativeRunner:
        """Encode the sources and start an empty cache for each."""
        session = ctypes.c_void_p(self._library.chemspec_open(self._model))
        _check_allocated(session)
        runner = NativeRunner(self, session, min(top_k, self.config.vocab_size), states)
        runner.join(sources)
        return runner

    def _set_weights(self, weights: Weights) -> None:
        config = self.config
        scale = config.d_model**0.5 if config.scale_embedding else 1.0
        tables = [weights["embedding.weight"] * scale, weights.target_table * scale]
        tables += [weights.positions, weights.target_positions]
        if config.relative_positions:
            tables += [self._pack_distances(weights[f"{stack}.distances"]) for stack in ("encoder", "decoder")]
        if config.rotary_base:
            turned = [np.repeat(table, self._heads, axis=1) for table in rotations(config).astype(np.float32)]
            tables += [tables[0][:0]] * 2 + turned
        for which, table in enumerate(map(np.ascontiguousarray, tables)):
            _check_allocated(self._library.chemspec_table(self._model, which, _address(table), len(table)))
        memory_projection = []
        for number, stack in enumerate(("encoder", "decoder")):
            for index in range((config.encoder_layers, config.decoder_layers)[number]):
                memory_projection += self._set_layer(weights, number, index, f"{stack}.layers.{index}")
            if config.embedding_norm and (number or not config.decoder_only):
                self._set_norm(number, 0, BEFORE_STACK, weights, f"{stack}.embedding_norm")
            if config.final_norms and (number or not config.decoder_only):
                self._set_norm(number, 0, AFTER_STACK, weights, f"{stack}.norm")
        if memory_projection:
            self._set_linear(0, 0, MEMORY_PROJECTION, *map(np.concatenate, zip(*memory_projection, strict=True)))
        self._set_linear(0, 0, OUTPUT, weights.output, weights["output.bias"] if config.output_bias else None)

    def _set_layer(self, weights: Weights, number: int, index: int, layer: str) -> list[tuple[Array, Array]]:
        """Set the weights of a layer; returns the projection of the encoder's output to its keys and values, if any."""
        config, inner, projection = self.config, len(self._order), []
        self._set_linear(number, index, QKV, *self._pack_in_projection(weights, f"{layer}.self_attn"))
        self._set_linear(number, index, OUT, *self._pack_out_projection(weights, f"{layer}.self_attn"))
        if config.relative_vectors:
            vectors = np.repeat(weights[f"{layer}.self_attn.vectors"], self._heads, axis=1)
            _check_allocated(self._library.chemspec_vectors(self._model, number, index, _address(vectors)))
        crosses = number and not config.decoder_only
        if crosses:
            weight, bias = self._pack_in_projection(weights, f"{layer}.multihead_attn")
            self._set_linear(number, index, CROSS, weight[:inner], bias[:inner])
            out = self._pack_out_projection(weights, f"{layer}.multihead_attn")
            self._set_linear(number, index, CROSS_OUT, *out)
            projection.append((weight[inner:], bias[inner:]))
        weight, bias = _weight_and_bias(weights, f"{layer}.linear1")
        self._set_linear(number, index, FFN_UP, weight[: config.feedforward], bias[: config.feedforward])
        if config.gated:
            self._set_linear(number, index, FFN_GATE, weight[config.feedforward :], bias[config.feedforward :])
        self._set_linear(number, index, FFN_DOWN, *_weight_and_bias(weights, f"{layer}.linear2"))
        for which in range(3 if crosses else 2):
            self._set_norm(number, index, which, weights, f"{layer}.norm{which + 1}")
        return projection

    def _pack_in_projection(self, weights: Weights, name: str) -> tuple[Array, Array]:
        """Return weights and biases of queries, keys and values in the kernel's feature order."""
        parts = []
        for kind in ("weight", "bias"):
            three = np.split(weights[f"{name}.in_proj_{kind}"], 3)
            parts.append(np.concatenate([self._reorder_features(part) for part in three]))
        return parts[0], parts[1]

    def _pack_out_projection(self, weights: Weights, name: str) -> tuple[Array, Array]:
        """Return the output projection, which reads reordered features."""
        weight, bias = _weight_and_bias(weights, f"{name}.out_proj")
        return np.ascontiguousarray(self._reorder_features(weight.T).T), bias

    def _reorder_features(self, features: Array) -> Array:
        """Return rows, one per feature, in the kernel's order; zeros for empty heads."""
        reordered: Array = np.concatenate([features, np.zeros_like(features[:1])])[self._order]
        return reordered

    def _pack_distances(self, table: Array) -> Array:
        """Return relative position biases per lane, by distance from the farthest key before the query on."""
        farthest, reach = len(table) // 2, self.config.max_positions - 1
        heads = len(self._order) * self.config.heads // self.config.inner_width
        wide = np.zeros((len(table), heads), np.float32)
        wide[:, : self.config.heads] = table
        indices = np.arange(-reach, reach + 1).clip(-farthest, farthest) + farthest
        lanes: Array = np.tile(wide, LANES // heads)[indices]
        return lanes

    def _set_linear(self, stack: int, layer: int, which: int, weight: Any, bias: Any | None) -> None:
        weight = np.ascontiguousarray(weight)
        bias = None if bias is None else np.ascontiguousarray(bias)  # referenced until the call returns
        size = stack, layer, which, *weight.shape
        if self.int8:
            whole, scale = quantise_rows(weight)
            arrays = map(_address, (whole, scale, bias))
            _check_allocated(self._library.chemspec_linear_int8(self._model, *size, *arrays))
            return
        weight16 = _in_bfloat16(weight)
        arrays = map(_address, (weight, bias, weight16))
        _check_allocated(self._library.chemspec_linear(self._model, *size, *arrays))

    def _set_norm(self, stack: int, layer: int, which: int, weights: Weights, name: str) -> None:
        scale = weights[f"{name}.weight"]
        shift = np.zeros_like(scale) if self.config.rms_norm else weights[f"{name}.bias"]
        values = _address(scale), _address(shift)
        _check_allocated(self._library.chemspec_norm(self._model, stack, layer, which, *values))


class NativeRunner(Runner):
    """Runner of the kernel: every node attends to its ancestors by walking the tree, and nothing is padded."""

    compaction_threshold = SPARSE
    can_join = True

    def __init__(self, backend: NativeBackend, session: ctypes.c_void_p, top_k: int, states: bool) -> None:
        self.backend, self.top_k = backend, top_k
        self.hidden_states: NDArray[np.float32] | None = None
        self._keeps_states = states
        self._library, self._session = backend._library, session
        self.kernel_pass = KernelPass(backend.run_address, session.value or 0, top_k)

    def __del__(self) -> None:
        if hasattr(self, "_session"):  # Ctrl-C may have interrupted `__init__`
            self._library.chemspec_close(self._session)

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sources; see `Runner.join`."""
        sources = [self.backend.config.encoder_ids(source) for source in sources]
        lengths, tokens = array("i", map(len, sources)), array("i", chain.from_iterable(sources))
        starts = (ctypes.c_void_p(column.buffer_info()[0]) for column in (tokens, lengths))
        _check_allocated(self._library.chemspec_join(self._session, *starts, len(sources)))

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Compute new nodes; see `Runner.run`."""
        inputs = np.array((nodes.queries, nodes.tokens, nodes.depths, nodes.parents), dtype=np.int32)  # (4, R)
        blocks = np.array(nodes.blocks, dtype=np.int32) if isinstance(nodes, MaskedBatch) else None
        count, config = inputs.shape[1], self.backend.config
        tokens, depths = inputs[1], inputs[2]
        if count and not (
            tokens.min() >= 0 and tokens.max() < config.vocab_size and depths.max() < config.max_positions
        ):
            raise PluginError(f"a decoder requested token ids beyond {config.vocab_size - 1} or too long a prefix")
        ids = np.empty((count, self.top_k), dtype=np.int32)
        log_probs = np.empty((count, self.top_k), dtype=np.float32)
        if self._keeps_states:
            self.hidden_states = np.empty((count, config.d_model), dtype=np.float32)
        addresses = map(_address, (*inputs, blocks))
        outputs = map(_address, (ids, log_probs, self.hidden_states))
        _check_allocated(self._library.chemspec_run(self._session, count, *addresses, self.top_k, *outputs))
        return ids, log_probs  # type: ignore[return-value]

    def release(self, query: int) -> None:
        """Free the memory of a finished query; see `Runner.release`."""
        self._library.chemspec_release(self._session, query)

    def compact(self, query: int, slots: Ints) -> None:
        """Move slots to the front; see `Runner.compact`."""
        remaining = slots.astype(np.int32)
        _check_allocated(self._library.chemspec_compact(self._session, query, _address(remaining), len(remaining)))


def _weight_and_bias(weights: Weights, name: str) -> tuple[Array, Array]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def _in_bfloat16(weight: NDArray[np.float32]) -> NDArray[np.uint16] | None:
    """Return the weights in bfloat16 if that is exact."""
    bits = weight.view(np.uint32)
    return None if (bits & 0xFFFF).any() else (bits >> 16).astype(np.uint16)


def _address(array: NDArray[Any] | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


def _check_allocated(result: Any) -> None:
    if not result or (isinstance(result, ctypes.c_void_p) and not result.value):
        raise MemoryError("there is not enough memory for this batch; make it smaller")
