"""Export a `Transformer` as two ONNX graphs of few, large operators: the encoder, and the pass over new nodes.

torch's exporter gives some 380 small operators for a 4-layer pass, most of which compute shapes; this gives some 75.
Activations are 2-D, (rows, D) with rows = B * N, so that every linear layer is one matrix product.

Shapes: B queries, S source tokens, N new nodes, C slots of the cache, L decoder layers, H heads, d width of a head,
D features (H * d unless the width of a head is set), M = B * N rows, k candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from chemspec.model.transformer import Attention, Layer, RmsNorm, Stack, Transformer, forced_logits
from chemspec.settings import ModelConfig

ACTIVATIONS = {"gelu": "Gelu", "gelu_tanh": "FastGelu"}  # operators of ONNX Runtime
FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]


class _Graph:
    """Builder of a graph; every method returns the name of the value it adds."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.config = model.config
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}

    def op(self, kind: str, *inputs: str, outputs: int | Sequence[str] = 1, domain: str = "", **attributes: Any) -> str:
        """Add an ONNX operator."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)] if isinstance(outputs, int) else list(outputs)
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names[0]

    def fused(self, kind: str, *inputs: str, outputs: int | Sequence[str] = 1, **attributes: Any) -> str:
        """Add a fused operator of ONNX Runtime."""
        return self.op(kind, *inputs, outputs=outputs, domain="com.microsoft", **attributes)

    def constant(self, name: str, value: Any, dtype: Any = np.float32) -> str:
        """Add weights, once per name."""
        if name not in self.weights:
            array = value.detach().float().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
            self.weights[name] = numpy_helper.from_array(np.ascontiguousarray(array, dtype=dtype), name)
        return name

    def linear(self, x: str, name: str, weight: Any, bias: Any | None) -> str:
        """Return x weight' + bias, (rows, in) -> (rows, out).

        Args:
            x: name of the input.
            name: prefix of weight and bias in the graph, where the weight is stored transposed.
            weight: (out, in).
            bias: (out,), or None.
        """
        matrix = self.constant(f"{name}.weight", weight.t())
        if bias is None:
            return self.op("MatMul", x, matrix)
        return self.op("Gemm", x, matrix, self.constant(f"{name}.bias", bias))

    def activate(self, x: str, activation: str) -> str:
        """Apply "relu", "gelu" or "gelu_tanh"."""
        return self.op("Relu", x) if activation == "relu" else self.fused(ACTIVATIONS[activation], x)

    def embed(self, ids: str, positions: str, *, target: bool) -> str:
        """Add token embedding (scaled in advance) plus position; (B, N) -> (rows, D)."""
        model, stack = self.model, "decoder" if target else "encoder"
        scale = math.sqrt(self.config.d_model) if self.config.scale_embedding else 1.0
        table = model.target_table if target else model.embedding
        words = self.op("Gather", self.constant(f"{stack}.embedding", table.weight * scale), ids)
        position_table = model.target_positions if target and not self.config.shared_positions else model.positions
        position = self.op("Gather", self.constant(f"{stack}.positions", position_table), positions)
        x = self.flat(self.op("Add", words, position), self.config.d_model)
        return self.norm(x, f"{stack}.embedding_norm", getattr(model, stack).embedding_norm)

    def biases(self, indices: str, stack: Stack, name: str) -> str:
        """Look up relative position biases: rows of the table (B, queries, keys) -> (B, H, queries, keys)."""
        return self.op(
            "Transpose",
            self.op("Gather", self.constant(f"{name}.distances", stack.distances), indices),
            perm=[0, 3, 1, 2],
        )

    def flat(self, x: str, width: int) -> str:
        """Reshape (B, N, width) -> (rows, width)."""
        return self.op("Reshape", x, self.constant(f"rows{width}", [-1, width], np.int64))

    def like(self, x: str, width: int, shape: str) -> str:
        """Reshape (rows, width) -> (B, N, width), where B and N are the first two entries of `shape`."""
        tail = self.constant(f"width{width}", [width], np.int64)
        target = f"shape{width}"
        if not any(target in node.output for node in self.nodes):
            self.op("Concat", shape, tail, outputs=[target], axis=0)
        return self.op("Reshape", x, target)

    def norm(self, x: str, name: str, norm: Any) -> str:
        """Add a norm, unless it is the identity."""
        if isinstance(norm, torch.nn.Identity):
            return x
        if isinstance(norm, RmsNorm):
            square = self.op("ReduceMean", self.op("Mul", x, x), self.constant("last", [-1], np.int64))
            root = self.op("Sqrt", self.op("Add", square, self.constant(f"{name}.eps", [norm.eps])))
            return self.op("Mul", self.op("Div", x, root), self.constant(f"{name}.weight", norm.weight))
        scale, bias = (self.constant(f"{name}.weight", norm.weight), self.constant(f"{name}.bias", norm.bias))
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=norm.eps)

    def add_norm(self, x: str, y: str, bias: Any, name: str, norm: Any) -> tuple[str, str]:
        """Add norm(x + y + bias) and x + y + bias, in one operator."""
        out, total = f"{name}.out", f"{name}.sum"
        shifts = [] if isinstance(norm, RmsNorm) else [self.constant(f"{name}.bias", norm.bias)]
        kind = "SkipLayerNormalization" if shifts else "SkipSimplifiedLayerNormalization"
        inputs = [x, y, self.constant(f"{name}.weight", norm.weight), *shifts, self.constant(f"{name}.added", bias)]
        self.fused(kind, *inputs, outputs=[out, "", "", total], epsilon=norm.eps)
        return out, total

    def attend(self, q: str, k: str, v: str, *, padding: str = "", bias: str = "", past: Sequence[str] = ()) -> str:
        """Multi-head attention (B, N, H * d) x (keys and values) -> (rows, H * d), before the output projection."""
        inputs = [q, k, v, "", padding, bias, *past]
        # With a past, the operator requires the two outputs of the concatenated cache, which are not used.
        outputs = 3 if past else 1
        mixed = self.fused("MultiHeadAttention", *inputs, outputs=outputs, num_heads=self.config.heads)
        return self.flat(mixed, self.config.inner_width)

    def qkv(self, x: str, name: str, attention: Attention, shape: str) -> list[str]:
        """Add queries, keys and values of self-attention, each (B, N, H * d)."""
        width = self.config.inner_width
        joined = self.linear(x, f"{name}.in_proj", attention.in_proj_weight, attention.in_proj_bias)
        names = [f"{name}.{part}" for part in "qkv"]
        self.op("Split", self.like(joined, 3 * width, shape), outputs=names, axis=-1, num_outputs=3)
        return names

    def stack(self, x: str, stack: Stack, name: str, parts: Any) -> str:
        """Add the residual sub-layers of all layers; `parts(layer, index)` lists (function, bias, norm, norm name).

        In a pre-norm model each sub-layer reads norm(x) and adds to x; the norm of the next sub-layer is fused with
        that addition. In a post-norm model the sum is normalised by the norm of the same sub-layer.
        """
        first = self.config.norm_first
        steps = [part for index, layer in enumerate(stack) for part in parts(layer, index)]
        final = stack.norm if self.config.final_norms else None
        if not first:
            for function, bias, norm, norm_name in steps:
                x, _ = self.add_norm(x, function(x), bias, norm_name, norm)
            return self.norm(x, f"{name}.norm", final) if final is not None else x
        normed = self.norm(x, steps[0][3], steps[0][2])
        for (function, bias, _, last_norm_name), following in zip(steps, [*steps[1:], None], strict=True):
            y = function(normed)
            if following is not None:
                normed, x = self.add_norm(x, y, bias, following[3], following[2])
            elif final is not None:
                return self.add_norm(x, y, bias, f"{name}.norm", final)[0]
            else:
                return self.op("Add", x, self.op("Add", y, self.constant(f"{last_norm_name}.last_bias", bias)))
        raise AssertionError("a stack has at least one layer")

    def feed(self, layer: Layer, name: str, norm: str) -> tuple[Any, Any, Any, str]:
        """Return the feed-forward sub-layer as an entry of `parts` in `stack`."""

        def function(x: str) -> str:
            inner = self.linear(x, f"{name}.linear1", layer.linear1.weight, layer.linear1.bias)
            if self.config.gated:
                halves = [f"{name}.inner", f"{name}.gate"]
                self.op("Split", inner, outputs=halves, axis=-1, num_outputs=2)
                inner = self.op("Mul", self.activate(halves[0], self.config.activation), halves[1])
            else:
                inner = self.activate(inner, self.config.activation)
            return self.linear(inner, f"{name}.linear2", layer.linear2.weight, None)

        return function, layer.linear2.bias, getattr(layer, norm), f"{name}.{norm}"

    def build(self, name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> bytes:
        """Check the graph and return it serialised."""
        graph = helper.make_graph(self.nodes, name, inputs, outputs, list(self.weights.values()))
        model = helper.make_model(graph, opset_imports=OPSETS, ir_version=9)
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


def _tensor_info(name: str, kind: int, *shape: int | str) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def export_encoder(model: Transformer) -> bytes:
    """Export the graph that encodes sources.

    Inputs: source, source_positions (B, S); source_mask (B, S) int32. Output: memory, the keys and values of the
    cross-attention (2L, B, H, S, d).
    """
    config, graph = model.config, _Graph(model)
    shape = graph.op("Shape", "source")
    x = graph.embed("source", "source_positions", target=False)
    bias_of = ""
    if farthest := config.relative_positions:
        first, axes = graph.constant("first", [0], np.int64), graph.constant("axes", [1], np.int64)
        positions = graph.op("Gather", "source_positions", first, axis=0)  # (1, S), the same in all rows
        distance = graph.op(
            "Sub", graph.op("Unsqueeze", positions, axes), graph.op("Transpose", positions, perm=[1, 0])
        )
        limits = [graph.constant(name, end, np.int64) for name, end in (("near", -farthest), ("far", farthest))]
        clipped = graph.op("Clip", distance, *limits)
        bias_of = graph.biases(graph.op("Add", clipped, limits[1]), model.encoder, "encoder")

    def parts(layer: Layer, index: int) -> list[tuple[Any, Any, Any, str]]:
        name = f"encoder.{index}"

        def self_attention(x: str) -> str:
            q, k, v = graph.qkv(x, f"{name}.self", layer.self_attn, shape)
            mixed = graph.attend(q, k, v, padding="source_mask", bias=bias_of)
            return graph.linear(mixed, f"{name}.self.out", layer.self_attn.out_proj.weight, None)

        return [
            (self_attention, layer.self_attn.out_proj.bias, layer.norm1, f"{name}.norm1"),
            graph.feed(layer, name, "norm2"),
        ]

    memory = graph.stack(x, model.encoder, "encoder", parts)
    width = config.inner_width
    weight = torch.cat([layer.multihead_attn.in_proj_weight[width:] for layer in model.decoder])
    bias = torch.cat([layer.multihead_attn.in_proj_bias[width:] for layer in model.decoder])
    joined = graph.linear(memory, "memory", weight, bias)
    parted = graph.constant("memory.parts", [2 * config.decoder_layers, config.heads, width // config.heads], np.int64)
    unflattened = graph.op("Concat", shape, parted, axis=0)
    spread = graph.op("Reshape", joined, unflattened)  # (B, S, 2L, H, d)
    graph.op("Transpose", spread, outputs=["memory"], perm=[2, 0, 3, 1, 4])
    inputs = [
        _tensor_info("source", INT64, "B", "S"),
        _tensor_info("source_positions", INT64, "B", "S"),
        _tensor_info("source_mask", INT32, "B", "S"),
    ]
    out = _tensor_info("memory", FLOAT, 2 * config.decoder_layers, "B", config.heads, "S", width // config.heads)
    return graph.build("encoder", inputs, [out])


def export_node_pass(model: Transformer) -> bytes:
    """Export the graph of `Transformer.step` followed by log-softmax and top-k.

    Inputs: tokens, depths (B, N); attention_bias (B, 1, N, C + N), 0 or a large negative number; top_k (1); source_mask
    (B, S) int32; past_<i> (B, H, C, d) and memory_<i> (B, H, S, d) for i in 0 .. 2L - 1, keys and values of each layer;
    with relative positions also places (B, N, C + N), the row of the bias table of each slot and node. Outputs: ids,
    log_probs (B * N, k); new_kv (2L, B, N, H * d).
    """
    config, graph = model.config, _Graph(model)
    width = config.inner_width
    shape = graph.op("Shape", "tokens")
    x = graph.embed("tokens", "depths", target=True)
    bias_of = "attention_bias"
    if config.relative_positions:
        bias_of = graph.op("Add", graph.biases("places", model.decoder, "decoder"), "attention_bias")
    new_kv: list[str] = []

    def parts(layer: Layer, index: int) -> list[tuple[Any, Any, Any, str]]:
        name = f"decoder.{index}"
        even, odd = 2 * index, 2 * index + 1

        def self_attention(x: str) -> str:
            q, k, v = graph.qkv(x, f"{name}.self", layer.self_attn, shape)
            new_kv.extend((k, v))
            mixed = graph.attend(q, k, v, bias=bias_of, past=(f"past_{even}", f"past_{odd}"))
            return graph.linear(mixed, f"{name}.self.out", layer.self_attn.out_proj.weight, None)

        def cross_attention(x: str) -> str:
            cross = layer.multihead_attn
            q = graph.linear(x, f"{name}.cross.q", cross.in_proj_weight[:width], cross.in_proj_bias[:width])
            q = graph.like(q, width, shape)
            mixed = graph.attend(q, f"memory_{even}", f"memory_{odd}", padding="source_mask")
            return graph.linear(mixed, f"{name}.cross.out", cross.out_proj.weight, None)

        return [
            (self_attention, layer.self_attn.out_proj.bias, layer.norm1, f"{name}.norm1"),
            (cross_attention, layer.multihead_attn.out_proj.bias, layer.norm2, f"{name}.norm2"),
            graph.feed(layer, name, "norm3"),
        ]

    x = graph.stack(x, model.decoder, "decoder", parts)
    logits = graph.linear(x, "output", model.output.weight, model.output.bias)
    if config.forced_first >= 0:
        at_root = graph.op("Equal", graph.flat("depths", 1), graph.constant("root", [0], np.int64))
        logits = graph.op("Where", at_root, graph.constant("forced", forced_logits(config).numpy()), logits)
    scores = graph.op("LogSoftmax", logits, axis=-1)
    graph.op("TopK", scores, "top_k", outputs=["log_probs", "ids"], axis=-1)
    first = graph.constant("first", [0], np.int64)
    graph.op("Concat", *(graph.op("Unsqueeze", name, first) for name in new_kv), outputs=["new_kv"], axis=0)
    outputs = [
        _tensor_info("ids", INT64, "M", "k"),
        _tensor_info("log_probs", FLOAT, "M", "k"),
        _tensor_info("new_kv", FLOAT, 2 * config.decoder_layers, "B", "N", width),
    ]
    return graph.build("node_pass", _node_pass_inputs(config), outputs)


def _node_pass_inputs(config: ModelConfig) -> list[Any]:
    caches = range(2 * config.decoder_layers)
    width, heads = config.inner_width, config.heads
    return [
        _tensor_info("tokens", INT64, "B", "N"),
        _tensor_info("depths", INT64, "B", "N"),
        _tensor_info("attention_bias", FLOAT, "B", 1, "N", "T"),
        _tensor_info("top_k", INT64, 1),
        _tensor_info("source_mask", INT32, "B", "S"),
        *([_tensor_info("places", INT64, "B", "N", "T")] if config.relative_positions else []),
        *(_tensor_info(f"past_{i}", FLOAT, "B", heads, "C", width // heads) for i in caches),
        *(_tensor_info(f"memory_{i}", FLOAT, "B", heads, "S", width // heads) for i in caches),
    ]
