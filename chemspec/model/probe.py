"""Checks of a loaded backend: its scores are finite, and agree with torch's where a runtime has to prove that."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from chemspec.model.runner import Backend, Floats, NodeBatch
from chemspec.model.weights import CheckpointError
from chemspec.settings import ModelConfig
from chemspec.system.compiled import NoKernelError
from chemspec.tokenizer import BOS, SPECIALS

# Maximum difference from torch's log-probs in nats, by precision.
TOLERANCES = {"fp64": 1e-3, "fp32": 1e-3, "fp16": 0.1, "bf16": 0.3}
LENGTH = 12  # tokens of the compared output
PARTS = ((0, 1, LENGTH), (0, 3, 7, LENGTH), (0, LENGTH))  # passes; a CUDA graph is captured when a size comes again


class UnsupportedError(NoKernelError):
    """A runtime does not support the model or the machine, or computes other scores than torch."""


def check_finite_scores(backend: Backend, config: ModelConfig, *, where: str) -> None:
    """Raise if the model's scores are not finite; every token is read once by the encoder and once by the decoder."""
    length = min(32, config.max_positions - 3)  # bos and eos are read on both sides
    first, count = len(SPECIALS), config.vocab_size - len(SPECIALS)
    if min(count, length) < 1:
        return
    rows = (np.arange(-(-count // length) * length) % count + first).reshape(-1, length).tolist()
    runner, nodes = backend.open(rows, top_k=config.vocab_size), NodeBatch()
    for query, row in enumerate(rows):
        _add_path(nodes, query, [BOS, *row], 0, length + 1)
    if not np.isfinite(runner.run(nodes)[1]).all():
        raise CheckpointError(f"{where}: the network computes scores that are infinite or undefined")


def compare_with_torch(backend: Backend, reference: Backend, config: ModelConfig, dtype: str) -> None:
    """Raise if a backend's log-probs differ from those of the torch backend on the same device."""
    tokens = [len(SPECIALS) + index % max(1, config.vocab_size - len(SPECIALS)) for index in range(LENGTH)]
    text = [BOS, *tokens[:-1]]
    expected = _log_probs(reference, tokens, text, (0, LENGTH), config.vocab_size)
    for parts in PARTS:
        worst = np.abs(_log_probs(backend, tokens, text, parts, config.vocab_size) - expected).max()
        if not worst <= TOLERANCES[dtype]:
            raise UnsupportedError(f"its log-probs differ from torch's by {worst:g}")


def _log_probs(backend: Backend, source: list[int], text: list[int], parts: tuple[int, ...], vocab: int) -> Floats:
    """Return the log-probs of every token after every prefix of `text`, (LENGTH, V), computed in several passes."""
    runner, by_token = backend.open([source], top_k=vocab), np.zeros((len(text), vocab))
    for start, stop in pairwise(parts):
        nodes = NodeBatch()
        _add_path(nodes, 0, text, start, stop)
        ids, log_probs = runner.run(nodes)
        np.put_along_axis(by_token[start:stop], ids.astype(np.int64), log_probs, axis=1)
    return by_token


def _add_path(nodes: NodeBatch, query: int, text: list[int], start: int, stop: int) -> None:
    """Append the tokens from `start` to `stop` of a query's only path."""
    nodes.queries += [query] * (stop - start)
    nodes.tokens += text[start:stop]
    nodes.depths += range(start, stop)
    nodes.parents += range(start - 1, stop - 1)
