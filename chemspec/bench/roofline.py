"""The roof over decoding: how fast this machine could go if it did nothing but multiply, or read weights.

A pass has to read the decoder's weights once and to multiply each by every node. What the machine does of either in a
second is measured here, with torch's own products; the larger of the two times bounds a pass, whoever computes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from chemspec.settings import ModelConfig
from chemspec.system.threads import torch_threads

SIDE = 768  # of the matrices that are multiplied
BYTES = {"fp32": 2, "int8": 1}  # of a weight: what is computed in fp32 is stored in bfloat16
PARTS = 3  # of bfloat16 that hold a number of fp32
TRIES = 20


@dataclass(frozen=True)
class Machine:
    """What a machine does in a second.

    Attributes:
        read: bytes of weights, read from where they fit.
        operations: products and sums, by precision.
    """

    read: float
    operations: dict[str, float]


def measure(weights: int, threads: int) -> Machine:
    """Measure the machine, in about a second.

    Args:
        weights: how many are read; few stay in the processor's cache.
        threads: of the arithmetic.
    """
    # Of two vectors, as a dot product reads both and computes next to nothing.
    one, other = (torch.ones(max(1, weights // 2)) for _ in range(2))
    floats = torch.randn(SIDE, SIDE)
    whole = torch.randint(-127, 128, (SIDE, SIDE), dtype=torch.int8)
    work: dict[str, Callable[[], object]] = {"fp32": partial(torch.mm, floats, floats)}
    if hasattr(torch, "_int_mm"):
        work["int8"] = partial(torch._int_mm, whole, whole.t().contiguous().t())
    halves = floats.bfloat16()
    with torch_threads(threads):
        read = 2 * one.element_size() * len(one) / _fastest(partial(torch.dot, one, other))
        rates = {name: 2 * SIDE**3 / _fastest(product) for name, product in work.items()}
        # With such weights three products in bfloat16 are as good as one in fp32, and may be faster.
        split = 2 * SIDE**3 / _fastest(partial(torch.mm, halves, halves)) / PARTS
        return Machine(read, {**rates, "fp32": max(rates["fp32"], split)})


def _fastest(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(TRIES):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def decoder_weights(config: ModelConfig) -> int:
    """Return how many weights every node of a pass meets; those that read the source once a query are none of them."""
    d = config.d_model
    return config.decoder_layers * (6 * d * d + 2 * d * config.feedforward) + d * config.vocab_size


def query_weights(config: ModelConfig) -> int:
    """Return how many weights every token of the source meets."""
    d = config.d_model
    return config.encoder_layers * (4 * d * d + 2 * d * config.feedforward) + config.decoder_layers * 2 * d * d


def bound(
    machine: Machine, config: ModelConfig, *, dtype: str, passes: float, nodes: float, source: float, batch: int
) -> float | None:
    """Return the milliseconds below which no program answers a query here; attention, norms and softmax are left out.

    Args:
        machine: as measured.
        config: the model's.
        dtype: "fp32" or "int8".
        passes: of a query.
        nodes: of a query, in all its passes.
        source: tokens of a query.
        batch: queries that share a pass.

    Returns:
        None for a precision whose arithmetic was not measured.
    """
    if dtype not in machine.operations:
        return None
    operations, weight = machine.operations[dtype], BYTES[dtype]

    def seconds(weights: int, runs: float, rows: float) -> float:
        return max(runs * weights * weight / batch / machine.read, 2 * rows * weights / operations)

    return 1e3 * (seconds(decoder_weights(config), passes, nodes) + seconds(query_weights(config), 1, source))
