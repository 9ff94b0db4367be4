"""Check of a loaded backend: its scores are finite, and agree with torch's where a runtime has to prove that."""

from itertools import pairwise

import numpy as np

from chemspec.model.runner import Backend, Floats, NodeBatch
from chemspec.model.weights import CheckpointError
from chemspec.settings import ModelConfig
from chemspec.system.compiled import NoKernelError
from chemspec.tokenizer import BOS, SPECIALS

# Maximum difference from torch's log-probs in nats, by precision.
TOLERANCES = {"fp64": 1e-3, "fp32": 1e-3, "fp16": 0.1, "bf16": 0.3}
MAX_SCORES = 2**24  # computed at once; a token of GPT-2 has 50,257 next ones
COMPARED = 12  # prefixes compared with torch
PARTS = ((0, 1, COMPARED), (0, 3, 7, COMPARED), (0, COMPARED))  # a CUDA graph is captured when a size comes again


class UnsupportedError(NoKernelError):
    """A runtime does not support the model or the machine, or computes other scores than torch."""


def probe(
    backend: Backend, config: ModelConfig, *, where: str = "", reference: Backend | None = None, dtype: str = "fp32"
) -> Floats:
    """Check the scores of a loaded backend, and return its log-probs (N, V) after every prefix.

    Every token is read once by the encoder and once by the decoder, of a large vocabulary some, evenly spread.
    `reference` is the torch backend on the same device if log-probs must agree with its; only the first few tokens are
    read then. Raises CheckpointError for scores that are not finite, or UnsupportedError for scores that differ from
    the reference.
    """
    length = COMPARED - 1 if reference else min(32, config.max_positions - 3)  # bos and eos are read on both sides
    first, count = len(SPECIALS), config.vocab_size - len(SPECIALS)
    if min(count, length) < 1:
        return np.zeros((0, config.vocab_size))
    count = min(count, max(length, MAX_SCORES // config.vocab_size))
    tokens = np.linspace(first, config.vocab_size - 1, count).round().astype(np.int64)  # all, where these suffice
    rows = tokens[np.arange(-(-count // length) * length) % count].reshape(-1, length).tolist()
    rows = rows[:1] if reference else rows
    log_probs = _log_probs(reference or backend, rows, (0, length + 1), config.vocab_size)
    if not np.isfinite(log_probs).all():
        raise CheckpointError(f"{where}: the network computes scores that are infinite or undefined")
    for parts in PARTS if reference else ():
        worst = np.abs(_log_probs(backend, rows, parts, config.vocab_size) - log_probs).max()
        if not worst <= TOLERANCES[dtype]:
            raise UnsupportedError(f"its log-probs differ from torch's by {worst:g}")
    return log_probs


def _log_probs(backend: Backend, rows: list[list[int]], parts: tuple[int, ...], vocab: int) -> Floats:
    """Return the log-probs of every token after every prefix of the rows, computed in several passes."""
    runner, passes = backend.open(rows, top_k=vocab), []
    for start, stop in pairwise(parts):
        nodes = NodeBatch()
        for query, row in enumerate(rows):
            nodes.queries += [query] * (stop - start)
            nodes.tokens += [BOS, *row][start:stop]
            nodes.depths += range(start, stop)
            nodes.parents += range(start - 1, stop - 1)
        ids, log_probs = runner.run(nodes)
        by_token = np.zeros_like(log_probs)
        np.put_along_axis(by_token, ids.astype(np.int64), log_probs, axis=1)
        passes.append(by_token)
    return np.concatenate(passes)
