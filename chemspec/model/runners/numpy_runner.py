"""Runner in numpy, for a CPU on which there is no compiled kernel: fp32, several times slower, ready at once.

Nothing is padded: linear layers take the nodes of all queries together, attention one query after the other.

Shapes: R new nodes of a pass; n new nodes of a query; C slots in use; S source tokens; L decoder layers; H heads; d
width of a head; D model width; V vocabulary; k candidates.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from chemspec.model.ancestors import AncestorMask, Mask
from chemspec.model.runner import Floats, Ints, MaskedBatch, NodeBatch, Runner
from chemspec.model.weights import Array, Weights, rotations
from chemspec.settings import ModelConfig
from chemspec.types import PluginError

IMPOSSIBLE = np.float32(-1e4)  # logit of tokens that a model cannot emit, as in `Transformer`
FIRST_SLOTS = 32  # slots of a query's KV cache, which doubles when it is full
KeysAndValues = tuple[Array, Array]  # each (H, slots, d)


class Linear(NamedTuple):
    """A linear layer: rows (..., in) -> (..., out)."""

    weight: Array  # (out, in)
    bias: Array | None = None

    def __call__(self, x: Array) -> Array:
        """Compute rows."""
        product: Array = x @ self.weight.T
        return product if self.bias is None else product + self.bias


class Attention:
    """The projections of an attention sub-layer."""

    def __init__(self, weights: Weights, name: str) -> None:
        self.heads, inner = weights.config.heads, weights.config.inner_width
        weight, bias = weights[f"{name}.in_proj_weight"], weights[f"{name}.in_proj_bias"]
        self.query = Linear(weight[:inner], bias[:inner])
        self.keys_and_values = Linear(weight[inner:], bias[inner:])
        self.out = _linear(weights, f"{name}.out_proj")
        self.vectors = weights.tensors.get(f"{name}.vectors")  # vectors of relative positions (2 farthest + 1, d)

    def split(self, x: Array) -> Array:
        """Split (T, H * d) -> (H, T, d)."""
        return x.reshape(len(x), self.heads, -1).swapaxes(0, 1)

    def project(self, x: Array) -> KeysAndValues:
        """Return keys and values of rows (T, D)."""
        keys, values = np.split(self.keys_and_values(x), 2, axis=1)
        return self.split(keys), self.split(values)

    def attend(
        self, q: Array, kv: KeysAndValues, mask: Mask | None = None, bias: Array | None = None, at: Ints | None = None
    ) -> Array:
        """Return what queries (n, H * d) read from keys and values, where the mask (n, slots) allows it; (n, H * d).

        The bias (H, n, slots) is added to the scores; `at` are distances of keys from queries (n, slots), for vectors.
        """
        vectors = None
        if self.vectors is not None and at is not None:
            farthest = len(self.vectors) // 2
            vectors = self.vectors[np.clip(at, -farthest, farthest) + farthest]
        return self.read(self.shares(q, kv[0], mask, bias, vectors), kv[1], vectors)

    def read(self, shares: Array, values: Array, vectors: Array | None = None) -> Array:
        """Return the values (H, slots, d), with vectors (n, slots, d), weighted by shares (H, n, slots); (n, H * d)."""
        read: Array = shares @ values
        if vectors is not None:
            read = read + np.einsum("hnk,nkd->hnd", shares, vectors)
        return read.swapaxes(0, 1).reshape(shares.shape[1], -1)

    def shares(
        self, q: Array, keys: Array, mask: Mask | None = None, bias: Array | None = None, vectors: Array | None = None
    ) -> Array:
        """Return the attention weights (H, n, slots), which sum to 1 over the slots; see `attend`."""
        queries = self.split(q) * np.float32(keys.shape[2] ** -0.5)
        scores = queries @ keys.swapaxes(1, 2)
        if vectors is not None:
            scores = scores + np.einsum("hnd,nkd->hnk", queries, vectors)
        if bias is not None:
            scores = scores + bias
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        shares: Array = weights / weights.sum(axis=2, keepdims=True)
        return shares


class Layer:
    """One layer of either stack; `cross` reads the encoder's output."""

    def __init__(self, weights: Weights, name: str, *, cross: bool) -> None:
        self.config = weights.config
        self.own = Attention(weights, f"{name}.self_attn")
        self.cross = Attention(weights, f"{name}.multihead_attn") if cross else None
        self.up, self.down = _linear(weights, f"{name}.linear1"), _linear(weights, f"{name}.linear2")
        self.norms = [_build_norm(weights, f"{name}.norm{number}") for number in range(1, 4 if cross else 3)]

    def add(self, x: Array, which: int, sublayer: Callable[[Array], Array]) -> Array:
        """Add a sub-layer to x, with its norm before or after it."""
        norm = self.norms[which]
        return x + sublayer(norm(x)) if self.config.norm_first else norm(x + sublayer(x))

    def feed(self, x: Array) -> Array:
        """Compute the feed-forward sub-layer."""
        inner, width = self.up(x), self.config.feedforward
        activated = ACTIVATIONS[self.config.activation](inner[:, :width])
        return self.down(activated * inner[:, width:] if self.config.gated else activated)


class Stack:
    """The encoder or the decoder."""

    def __init__(self, weights: Weights, name: str) -> None:
        config = weights.config
        is_decoder = name == "decoder"
        depth = config.decoder_layers if is_decoder else config.encoder_layers
        crosses = is_decoder and not config.decoder_only
        self.layers = [Layer(weights, f"{name}.layers.{index}", cross=crosses) for index in range(depth)]
        self.table = weights.target_table if is_decoder else weights["embedding.weight"]
        self.positions = weights.target_positions if is_decoder else weights.positions
        self.scale = np.float32(config.d_model**0.5 if config.scale_embedding else 1.0)
        self.first = _build_norm(weights, f"{name}.embedding_norm") if config.embedding_norm else _unchanged
        self.last = _build_norm(weights, f"{name}.norm") if config.final_norms else _unchanged
        self.distances = weights[f"{name}.distances"] if config.relative_positions else None
        self.rotations = rotations(config).astype(np.float32) if config.rotary_base else None

    def embed(self, ids: Sequence[int], depths: Sequence[int]) -> Array:
        """Return the embeddings (T, D) of tokens at their positions."""
        return self.first(self.table[list(ids)] * self.scale + self.positions[list(depths)])

    def project(self, attention: Attention, x: Array, positions: Sequence[int]) -> tuple[Array, KeysAndValues]:
        """Return queries (T, H * d), keys and values (H, T, d) of rows at these positions, rotated by them."""
        q, (keys, values) = attention.query(x), attention.project(x)
        if self.rotations is not None:
            cosine, sine = self.rotations[:, list(positions)]
            q = _rotated(attention.split(q), cosine, sine).swapaxes(0, 1).reshape(q.shape)
            keys = _rotated(keys, cosine, sine)
        return q, (keys, values)

    def biases(self, queries: Ints, keys: Ints) -> Array | None:
        """Return relative position biases (H, n, slots) of keys seen from queries, given the depths of both."""
        if self.distances is None:
            return None
        farthest = len(self.distances) // 2
        distance = np.clip(keys[None, :] - queries[:, None], -farthest, farthest) + farthest
        biases: Array = np.moveaxis(self.distances[distance], 2, 0)
        return biases


class NumpyBackend:
    """A model's weights in fp32, on the CPU; immutable, so threads may share it."""

    def __init__(self, weights: Weights) -> None:
        self.config = weights.config
        self.decoder = Stack(weights, "decoder")
        if not self.config.decoder_only:
            self.encoder = Stack(weights, "encoder")
        self.output = Linear(weights.output, weights["output.bias"] if self.config.output_bias else None)

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int, states: bool = False) -> NumpyRunner:
        """Encode the sources; see `Backend.open`."""
        runner = NumpyRunner(self, min(top_k, self.config.vocab_size), states)
        runner.join(sources)
        return runner

    def encode(self, source: Sequence[int]) -> list[KeysAndValues]:
        """Return the keys and values of a source for the attention of each decoder layer to it."""
        if self.config.decoder_only:
            return self._read_prompt(source)[0]
        memory = self.encoder_states(source)
        return [layer.cross.project(memory) for layer in self.decoder.layers if layer.cross]

    def encoder_states(self, source: Sequence[int]) -> Array:
        """Return the last states (S, D) of a source, with the tokens that are added: those of the encoder, if any."""
        if self.config.decoder_only:
            return self._read_prompt(source)[1]
        ids = self.config.encoder_ids(source)
        depths = np.arange(len(ids))
        distance = depths[None, :] - depths[:, None]
        x, bias = self.encoder.embed(ids, range(len(ids))), self.encoder.biases(depths, depths)

        def attend(attention: Attention, x: Array) -> Array:
            kv = attention.project(x)
            return attention.out(attention.attend(attention.query(x), kv, bias=bias, at=distance))

        for layer in self.encoder.layers:
            x = layer.add(x, 0, partial(attend, layer.own))
            x = layer.add(x, 1, layer.feed)
        return self.encoder.last(x)

    def _read_prompt(self, source: Sequence[int]) -> tuple[list[KeysAndValues], Array]:
        """Return keys and values, by layer, of a source that the decoder reads, and its last states (S, D)."""
        ids = self.config.encoder_ids(source)
        positions = np.arange(len(ids))
        x, causal, memory = self.decoder.embed(ids, range(len(ids))), positions <= positions[:, None], []

        def attend(attention: Attention, x: Array) -> Array:
            q, kv = self.decoder.project(attention, x, range(len(ids)))
            memory.append(kv)
            return attention.out(attention.attend(q, kv, causal))

        for layer in self.decoder.layers:
            x = layer.add(x, 0, partial(attend, layer.own))
            x = layer.add(x, 1, layer.feed)
        return memory, self.decoder.last(x)

    def source_attention(self, source: Sequence[int], prefix: Sequence[int]) -> Array:
        """Return the weights (H, T, S) with which the last decoder layer reads the source at each token of a prefix."""
        if self.config.decoder_only:
            return self._prompt_attention(source, prefix)
        memory, depths = self.encode(source), np.arange(len(prefix))
        x, bias = self.decoder.embed(prefix, range(len(prefix))), self.decoder.biases(depths, depths)
        causal, distance = depths[None, :] <= depths[:, None], depths[None, :] - depths[:, None]
        shares: list[Array] = []

        def attend(attention: Attention, x: Array) -> Array:
            kv = attention.project(x)
            return attention.out(attention.attend(attention.query(x), kv, causal, bias, distance))

        def read(attention: Attention, kv: KeysAndValues, x: Array) -> Array:
            shares[:] = [attention.shares(attention.query(x), kv[0])]
            return attention.out(attention.read(shares[0], kv[1]))

        for layer, kv in zip(self.decoder.layers, memory, strict=True):
            assert layer.cross is not None
            x = layer.add(x, 0, partial(attend, layer.own))
            x = layer.add(x, 1, partial(read, layer.cross, kv))
            x = layer.add(x, 2, layer.feed)
        return shares[0]

    def _prompt_attention(self, source: Sequence[int], prefix: Sequence[int]) -> Array:
        """Return `source_attention` of a decoder that reads the source: its weights there, scaled to sum to 1."""
        start = len(self.config.encoder_ids(source))
        ids = [*self.config.encoder_ids(source), *prefix]
        positions, shares = np.arange(len(ids)), list[Array]()
        x, causal = self.decoder.embed(ids, range(len(ids))), positions <= positions[:, None]

        def attend(attention: Attention, x: Array) -> Array:
            q, (keys, values) = self.decoder.project(attention, x, range(len(ids)))
            shares[:] = [attention.shares(q, keys, causal)]
            return attention.out(attention.read(shares[0], values))

        for layer in self.decoder.layers:
            x = layer.add(x, 0, partial(attend, layer.own))
            x = layer.add(x, 1, layer.feed)
        of_source: Array = shares[0][:, start:, :start]
        scaled: Array = of_source / of_source.sum(axis=2, keepdims=True)
        return scaled

    def logits(self, states: Array, depths: Sequence[int]) -> Array:
        """Return the logits (R, V) of the tokens that follow last hidden states at these depths."""
        logits = self.output(states)
        if self.config.forced_first >= 0:
            first = np.equal(depths, 0)
            logits[first] = IMPOSSIBLE
            logits[first, self.config.forced_first] = 0
        return logits


class QueryCache:
    """A query's source, and the keys and values of its nodes."""

    def __init__(self, memory: list[KeysAndValues], config: ModelConfig) -> None:
        self.memory, self.ancestors = memory, AncestorMask()
        self.start = memory[0][0].shape[1] if config.decoder_only else 0  # position of the first node
        self.depths = np.zeros(FIRST_SLOTS, dtype=np.int64)
        shape = config.decoder_layers, 2, config.heads, FIRST_SLOTS, config.inner_width // config.heads
        self.slots = np.zeros(shape, dtype=np.float32)

    def reserve(self, count: int) -> None:
        """Grow to at least `count` slots."""
        have = len(self.depths)
        if count > have:
            more = max(count, 2 * have) - have
            self.depths = np.pad(self.depths, (0, more))
            self.slots = np.pad(self.slots, ((0, 0), (0, 0), (0, 0), (0, more), (0, 0)))

    def keep(self, slots: Ints) -> None:
        """Keep these slots, in this order."""
        self.ancestors.keep(slots)
        self.depths[: len(slots)] = self.depths[slots]
        self.slots[:, :, :, : len(slots)] = self.slots[:, :, :, slots]


class NewNodes(NamedTuple):
    """The new nodes of one query in a pass."""

    cache: QueryCache
    rows: slice  # rows among the nodes of the pass
    slots: slice  # slots of the query
    mask: Mask  # slots that each attends to (n, slots)
    bias: Array | None
    distance: Ints  # distance of slots from nodes (n, slots), by depth


class NumpyRunner(Runner):
    """KV caches of one session as arrays, one for each query."""

    can_join = True

    def __init__(self, backend: NumpyBackend, top_k: int, states: bool) -> None:
        self.backend, self.top_k, self._keeps_states = backend, top_k, states
        self._queries: dict[int, QueryCache] = {}
        self._joined = 0

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sources; see `Runner.join`."""
        for number, source in enumerate(sources, self._joined):
            self._queries[number] = QueryCache(self.backend.encode(source), self.backend.config)
        self._joined += len(sources)

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Compute new nodes; see `Runner.run`."""
        if isinstance(nodes, MaskedBatch):
            raise PluginError("numpy computes no blocks of mask tokens")
        config = self.backend.config
        tokens, depths = ({0, *column} for column in (nodes.tokens, nodes.depths))
        if min(tokens) < 0 or max(tokens) >= config.vocab_size or max(depths) >= config.max_positions:
            raise PluginError(f"a decoder requested token ids beyond {config.vocab_size - 1} or too long a prefix")
        groups = self._add_nodes(nodes)
        starts = (self._queries[query].start for query in nodes.queries)
        positions = [depth + start for depth, start in zip(nodes.depths, starts, strict=True)]
        x = self.backend.decoder.embed(nodes.tokens, positions)
        for index, layer in enumerate(self.backend.decoder.layers):
            x = layer.add(x, 0, partial(self._attend_to_ancestors, layer.own, index, groups, positions))
            if layer.cross is not None:
                x = layer.add(x, 1, partial(self._attend_to_source, layer.cross, index, groups))
            x = layer.add(x, 2 if layer.cross is not None else 1, layer.feed)
        states = self.backend.decoder.last(x)
        if self._keeps_states:
            self.hidden_states = states
        return best_tokens(self.backend.logits(states, nodes.depths), self.top_k)

    def _add_nodes(self, nodes: NodeBatch) -> list[NewNodes]:
        """Give the new nodes of each query their slots."""
        counts, groups = Counter(nodes.queries), []  # counts keep the order of the nodes
        for (query, count), stop in zip(counts.items(), accumulate(counts.values()), strict=True):
            cache, rows = self._queries[query], slice(stop - count, stop)
            slots = slice(cache.ancestors.count, cache.ancestors.count + count)
            cache.reserve(slots.stop)
            cache.depths[slots] = nodes.depths[rows]
            mask = cache.ancestors.add(nodes.parents[rows])
            new, every = cache.depths[slots], cache.depths[: slots.stop]
            bias = self.backend.decoder.biases(new, every)
            groups.append(NewNodes(cache, rows, slots, mask, bias, every[None, :] - new[:, None]))
        return groups

    def _attend_to_ancestors(
        self, attention: Attention, index: int, groups: list[NewNodes], positions: Sequence[int], x: Array
    ) -> Array:
        """Compute the self-attention of a decoder layer, which caches keys and values."""
        q, (keys, values) = self.backend.decoder.project(attention, x, positions)
        read = np.empty_like(q)
        for cache, rows, slots, mask, bias, distance in groups:
            cache.slots[index, 0, :, slots] = keys[:, rows]
            cache.slots[index, 1, :, slots] = values[:, rows]
            kv = cache.slots[index, 0, :, : slots.stop], cache.slots[index, 1, :, : slots.stop]
            if cache.start:  # the source is read in the same softmax
                source = cache.memory[index]
                kv = np.concatenate((source[0], kv[0]), axis=1), np.concatenate((source[1], kv[1]), axis=1)
                mask = np.pad(mask, ((0, 0), (cache.start, 0)), constant_values=True)
            read[rows] = attention.attend(q[rows], kv, mask, bias, distance)
        return attention.out(read)

    def _attend_to_source(self, attention: Attention, index: int, groups: list[NewNodes], x: Array) -> Array:
        """Compute the attention of a decoder layer to the encoder's output."""
        q = attention.query(x)
        read = np.concatenate([attention.attend(q[each.rows], each.cache.memory[index]) for each in groups])
        return attention.out(read)

    def release(self, query: int) -> None:
        """Free the memory of a finished query; see `Runner.release`."""
        del self._queries[query]

    def compact(self, query: int, slots: Ints) -> None:
        """Move slots to the front; see `Runner.compact`."""
        self._queries[query].keep(slots)


def best_tokens(logits: Array, count: int) -> tuple[Ints, Floats]:
    """Return the `count` best tokens and log-probs of logits (R, V), best first, ties by id."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    ids = np.argsort(-log_probs, axis=1, kind="stable")[:, :count]
    return ids, np.take_along_axis(log_probs, ids, axis=1)


def _linear(weights: Weights, name: str) -> Linear:
    return Linear(weights[f"{name}.weight"], weights[f"{name}.bias"])


def _build_norm(weights: Weights, name: str) -> Callable[[Array], Array]:
    scale, eps = weights[f"{name}.weight"], np.float32(weights.config.layer_norm_eps)
    if weights.config.rms_norm:
        return lambda x: x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * scale
    shift = weights[f"{name}.bias"]
    return lambda x: (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps) * scale + shift


def _rotated(features: Array, cosine: Array, sine: Array) -> Array:
    """Return features (H, T, d) rotated by angles (T, d / 2)."""
    left, right = np.split(features, 2, axis=2)
    return np.concatenate((left * cosine - right * sine, right * cosine + left * sine), axis=2)


def _unchanged(x: Array) -> Array:
    return x


_erf = np.frompyfunc(math.erf, 1, 1)


def _gelu(x: Array) -> Array:
    active: Array = x * (0.5 + 0.5 * _erf(x * np.float32(0.5**0.5)).astype(np.float32))
    return active


def _gelu_tanh(x: Array) -> Array:
    active: Array = 0.5 * x * (1 + np.tanh(np.float32((2 / math.pi) ** 0.5) * (x + np.float32(0.044715) * x * x * x)))
    return active


def _silu(x: Array) -> Array:
    active: Array = x / (1 + np.exp(-x))
    return active


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
}
