"""Runner on ONNX Runtime, CPU and fp32; graphs are written once and cached on disk by content hash."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from chemspec.model.runner import Floats, Ints
from chemspec.model.runners import onnx_graph
from chemspec.model.runners.padded import Mask, PaddedRunner
from chemspec.model.runners.torch_runner import source_batch
from chemspec.model.transformer import Transformer
from chemspec.system import cache
from chemspec.tokenizer import PAD

GRAPHS = {"encoder": onnx_graph.export_encoder, "pass": onnx_graph.export_node_pass}
VERSION = 3  # of the graphs; raise it when onnx_graph.py changes what it writes
STEP = 32  # slots by which the KV cache grows: shapes rarely change, and unused slots cost little


def _load_graph(model: Transformer, name: str, digest: str) -> bytes:
    """Return the serialised graph, from the disk cache if possible."""
    key = f"{digest}-{name}-v{VERSION}.onnx"
    content = cache.read_cached(key)
    if content is None:
        content = GRAPHS[name](model)
        cache.write_cached(key, content)
    return content


class OnnxBackend:
    """ONNX Runtime sessions of a model; safe to share between threads."""

    def __init__(self, model: Transformer, *, digest: str, threads: int) -> None:
        self.model = model
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        # Workers that spin after a pass keep the operating system from running anything else on their core,
        # until it preempts them in the middle of the next pass (log.md).
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.encoder, self.step = (
            onnxruntime.InferenceSession(_load_graph(model, name, digest), options, providers=["CPUExecutionProvider"])
            for name in ("encoder", "pass")
        )

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> OnnxRunner:
        """Encode the sources; see `Backend.open`."""
        source = source_batch(self.model, sources).numpy()
        positions = np.broadcast_to(np.arange(source.shape[1]), source.shape)
        source_mask = (source != PAD).astype(np.int32)
        feed = {"source": source, "source_positions": np.ascontiguousarray(positions), "source_mask": source_mask}
        (memory,) = self.encoder.run(None, feed)
        return OnnxRunner(self, memory, source_mask, min(top_k, self.model.config.vocab_size))


class OnnxRunner(PaddedRunner):
    """KV cache of one session as one array (2L, B, H, C, d), whose layers the graph reads in place."""

    def __init__(self, backend: OnnxBackend, memory: Floats, source_mask: NDArray[np.int32], top_k: int) -> None:
        """Start an empty cache.

        Args:
            backend: the graphs.
            memory: keys and values of the cross-attention, (2L, B, H, S, d).
            source_mask: (B, S), 0 at padding.
            top_k: candidates kept per node.
        """
        layers, queries, heads, _, width = memory.shape
        super().__init__(queries)
        self.backend = backend
        self.memory, self.source_mask, self.top_k = memory, source_mask, top_k
        self.cache = np.zeros((layers, queries, heads, STEP, width), dtype=np.float32)
        self._bind()

    def _bind(self) -> None:
        """Bind cache and memory to the graph; repeated only when one of them has moved."""
        self.binding = self.backend.step.io_binding()
        self.binding.bind_cpu_input("source_mask", self.source_mask)
        self.binding.bind_cpu_input("top_k", np.array([self.top_k], dtype=np.int64))
        for index, (past, memory) in enumerate(zip(self.cache, self.memory, strict=True)):
            self.binding.bind_cpu_input(f"past_{index}", past)
            self.binding.bind_cpu_input(f"memory_{index}", memory)

    def reserve(self, slots: int) -> None:
        """Grow the KV cache to at least `slots` slots."""
        have = self.cache.shape[3]
        if slots > have:
            layers, queries, heads, _, width = self.cache.shape
            # Grow by steps while small, then by half: few shapes, little copying.
            room = max(-(-slots // STEP) * STEP, (have * 3 // 2) // STEP * STEP)
            grown = np.zeros((layers, queries, heads, room, width), dtype=np.float32)
            grown[:, :, :, :have] = self.cache
            self.cache = grown
            self._bind()

    def run_padded(self, tokens: Ints, depths: Ints, attention_mask: Mask, slot_offsets: Ints) -> tuple[Ints, Floats]:
        """Compute new nodes; see `PaddedRunner.run_padded`."""
        queries, width = tokens.shape
        used, room = attention_mask.shape[2] - width, self.cache.shape[3]
        bias = np.full((queries, 1, width, room + width), -1e9, dtype=np.float32)
        bias[:, 0, :, :used][attention_mask[:, :, :used]] = 0
        bias[:, 0, :, room:][attention_mask[:, :, used:]] = 0
        binding = self.binding
        binding.bind_cpu_input("tokens", tokens)
        binding.bind_cpu_input("depths", depths)
        binding.bind_cpu_input("attention_bias", bias)
        if farthest := self.backend.model.config.relative_positions:
            # The attended nodes are the path from the root, so the number of later ones is the distance to a node.
            later = np.cumsum(attention_mask[:, :, ::-1], axis=-1)[:, :, ::-1]
            distance = np.clip(1 - later, -farthest, farthest) + farthest
            distance_rows = np.zeros((queries, width, room + width), dtype=np.int64)
            distance_rows[:, :, :used], distance_rows[:, :, room:] = distance[:, :, :used], distance[:, :, used:]
            binding.bind_cpu_input("places", distance_rows)
        for name in ("ids", "log_probs", "new_kv"):
            binding.bind_output(name, "cpu")
        self.backend.step.run_with_iobinding(binding)
        ids, log_probs, new_kv = binding.copy_outputs_to_cpu()
        layers, _, heads, _, head = self.cache.shape
        new_kv = new_kv.reshape(layers, queries, width, heads, head)
        if queries == 1:
            start = int(slot_offsets[0])
            self.cache[:, 0, :, start : start + width] = new_kv[:, 0].transpose(0, 2, 1, 3)
        else:
            rows, slots = np.arange(queries)[:, None], slot_offsets[:, None] + np.arange(width)
            self.cache[:, rows, :, slots] = new_kv.transpose(1, 2, 0, 3, 4)
        return ids.reshape(queries, width, -1), log_probs.reshape(queries, width, -1)

    def gather_rows(self, rows: Sequence[int]) -> None:
        """Keep these rows of the batch, in this order."""
        self.cache = np.take(self.cache, rows, axis=1)
        self.memory = np.take(self.memory, rows, axis=1)
        self.source_mask = np.take(self.source_mask, rows, axis=0)
        self._bind()

    def gather_slots(self, row: int, slots: Ints) -> None:
        """Move these slots of a row to the front, in this order."""
        self.cache[:, row, :, : len(slots)] = self.cache[:, row][:, :, slots]
