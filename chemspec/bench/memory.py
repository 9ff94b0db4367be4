"""Measure the peak memory of decoding in a separate process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch

from chemspec.bench.speed import peak_memory_mb, reset_peak_memory
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings


def measure_in_child(
    folder: Path, queries: Sequence[str], settings: DecodeSettings, loading: Mapping[str, Any]
) -> dict[str, float]:
    """Run `measure_memory` in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure_memory, folder, list(queries), settings, dict(loading)).result()


def measure_memory(
    folder: Path, queries: Sequence[str], settings: DecodeSettings, loading: Mapping[str, Any]
) -> dict[str, float]:
    """Load a model, decode an untimed batch, then all queries.

    Returns `{"peak_mb", "latency_ms"}`: peak memory of the process in MB (on a GPU: that allocated by PyTorch), and the
    median milliseconds per batch.
    """
    engine = Engine.load(folder, **loading)
    size = settings.batch_size
    batches = [queries[start : start + size] for start in range(0, len(queries), size)]
    engine.predict(batches[0], settings)
    reset_peak_memory()
    spent = []
    for batch in batches:
        began = time.perf_counter()
        engine.predict(batch, settings)
        spent.append(1e3 * (time.perf_counter() - began))
    on_gpu = engine.device.startswith("cuda")
    peak = torch.cuda.max_memory_allocated() / 1e6 if on_gpu else peak_memory_mb()
    return {"peak_mb": peak, "latency_ms": median(spent)}
