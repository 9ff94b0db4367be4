"""Measure the peak memory of a way to decode in a process of its own, which holds nothing of other rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch

from chemspec.bench.speed import peak_mb, reset_peak
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings


def in_child(
    folder: Path, queries: Sequence[str], settings: DecodeSettings, loading: Mapping[str, Any]
) -> dict[str, float]:
    """Return what `measure` does, from a process that is started for it and ends with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, folder, list(queries), settings, dict(loading)).result()


def measure(
    folder: Path, queries: Sequence[str], settings: DecodeSettings, loading: Mapping[str, Any]
) -> dict[str, float]:
    """Load a model, answer an untimed batch, then all queries.

    Args:
        folder: of the model.
        queries: SMILES.
        settings: how to decode them; `batch_size` queries at a time.
        loading: options of `Engine.load`.

    Returns:
        `{"peak_mb", "latency_ms"}`: the most memory (MB) while they were answered, the program's own and all weights
        included (of a GPU, what PyTorch allocated there), and the median milliseconds until a batch was answered.
    """
    engine = Engine.load(folder, **loading)
    size = settings.batch_size
    batches = [queries[start : start + size] for start in range(0, len(queries), size)]
    engine.predict(batches[0], settings)
    reset_peak()
    spent = []
    for batch in batches:
        began = time.perf_counter()
        engine.predict(batch, settings)
        spent.append(1e3 * (time.perf_counter() - began))
    cuda = engine.device.startswith("cuda")
    return {"peak_mb": torch.cuda.max_memory_allocated() / 1e6 if cuda else peak_mb(), "latency_ms": median(spent)}
