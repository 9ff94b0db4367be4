"""Registry of the runtimes: what computes the forward pass, on which devices and in which precisions.

A new one needs an entry here, or an entry point `chemspec.runtimes` in another package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import chemspec.plugins as plugins
from chemspec.model.checkpoint import Checkpoint

if TYPE_CHECKING:
    import torch

    from chemspec.model.runner import Backend

# Precision of torch; for int8 that of drafters with a network of their own.
TORCH_DTYPES = {"fp32": "float32", "int8": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
FLOATS = ("fp32", "bf16", "fp16", "fp64")


@dataclass(frozen=True)
class RuntimeSpec:
    """Description of a runtime.

    `open` returns the backend of a model for a device, a precision and a number of CPU threads, and raises
    `NoKernelError` if the runtime cannot compute the model here.
    """

    name: str  # value of `--runtime`
    open: Callable[[Checkpoint, str, str, int], Backend]
    dtypes: Mapping[str, tuple[str, ...]]  # by kind of device, "cpu" or "cuda"
    bitwise: bool = False  # whether scores are bitwise independent of the rest of the batch (batch-invariant)
    packages: tuple[str, ...] = ()  # optional packages that it needs
    compared_with_torch: bool = False  # whether its log-probs are, at loading; if they differ torch replaces it


def torch_dtype(name: str) -> torch.dtype:
    """Return a precision as a torch dtype."""
    import torch

    dtype: torch.dtype = getattr(torch, TORCH_DTYPES[name])
    return dtype


# Each imports its runtime when a model is opened, which spares the others the import.


def _open_native(loaded: Checkpoint, _: str, dtype: str, threads: int) -> Backend:
    from chemspec.model.runners.native.runner import NativeBackend

    return NativeBackend(loaded.weights, threads=threads, int8=dtype == "int8")


def _open_torch(loaded: Checkpoint, device: str, dtype: str, _: int) -> Backend:
    from chemspec.model.runners.torch_runner import TorchBackend

    return TorchBackend(loaded.model.to(device=device, dtype=torch_dtype(dtype)))


def _open_graphs(loaded: Checkpoint, device: str, dtype: str, _: int) -> Backend:
    from chemspec.model.runners.cuda_graphs import GraphBackend

    return GraphBackend(loaded.model.to(device=device, dtype=torch_dtype(dtype)))


RUNTIMES: plugins.Registry[RuntimeSpec] = plugins.RUNTIMES

for _spec in (
    RuntimeSpec("native", _open_native, {"cpu": ("fp32", "int8")}, bitwise=True),
    RuntimeSpec("torch", _open_torch, {"cpu": FLOATS, "cuda": FLOATS}),
    RuntimeSpec("graphs", _open_graphs, {"cuda": FLOATS}, compared_with_torch=True),
):
    RUNTIMES.register(_spec)
