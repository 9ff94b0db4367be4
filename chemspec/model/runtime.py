"""Device, precision, runtime and threads of a model, and the cost of a forward pass there."""

from __future__ import annotations

import re
import time
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from chemspec.model.checkpoint import Checkpoint
from chemspec.model.cost import BATCHES, LARGE, CostCurve, cached_curve, measure_cost_curve
from chemspec.model.probe import UnsupportedError, probe
from chemspec.model.runner import Backend
from chemspec.settings import MAX_THREADS, ModelConfig, ModelDims, check_range
from chemspec.system import extras, gpu
from chemspec.system.compiled import NoKernelError
from chemspec.system.threads import set_torch_threads, usable_cores

if TYPE_CHECKING:
    import torch

COMPILER = f"install a C++ compiler, or {extras.install_command('compiler')}"
SLOW = f"forward passes are computed by numpy, which is several times slower: {COMPILER}"

# Precision of torch; for int8 that of drafters with a network of their own.
TORCH_DTYPES = {"fp32": "float32", "int8": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
FLOATS = ("fp32", "bf16", "fp16", "fp64")
# Runtimes with their precisions by kind of device. The compiled kernel is batch-invariant: its scores are bitwise
# independent of the rest of the batch. The log-probs of graphs are compared with torch's at loading.
RUNTIMES: dict[str, dict[str, tuple[str, ...]]] = {
    "native": {"cpu": ("fp32", "int8")},
    "numpy": {"cpu": ("fp32",)},
    "torch": {"cpu": FLOATS, "cuda": FLOATS},
    "graphs": {"cuda": FLOATS},
}


@dataclass(frozen=True)
class RuntimeConfig:
    """Device, precision, runtime and CPU threads."""

    device: str
    dtype: str
    runtime: str
    threads: int

    @classmethod
    def find(cls, *, device: str, dtype: str, runtime: str, threads: int) -> RuntimeConfig:
        """Resolve "auto" and 0 in the arguments of `Engine.load`, except for the runtime, which depends on the model.

        Raises ValueError for a device, precision or runtime that is unknown or not available.
        """
        check_range("threads", threads, 0, MAX_THREADS)
        if dtype not in ("auto", *TORCH_DTYPES):
            raise ValueError(f"no precision {dtype!r}; there are {', '.join(TORCH_DTYPES)}")
        if runtime == "onnx":
            raise ValueError("the onnx runtime has been removed; use auto, native or torch")
        if runtime not in ("auto", *RUNTIMES):
            raise ValueError(f"no runtime {runtime!r}; there are {', '.join(RUNTIMES)}")
        dtype = "fp32" if dtype == "auto" else dtype
        device = _resolve_device(device)
        if dtype not in RUNTIMES["native"]["cpu"] or runtime in ("torch", "graphs"):
            extras.require_packages("torch", what=f"the precision {dtype}" if runtime == "auto" else f"{runtime}")
        if device.startswith("cuda"):
            gpu.avoid_cudnn_attention()
        return cls(device, dtype, runtime, threads or usable_cores())

    @property
    def exactness(self) -> str:
        """To what precision a prefix's scores are independent of the rest of the batch, and hence of drafts.

        "to the last bit": bitwise batch-invariant, since rows are computed separately or sums have a fixed order.
        "up to ties": sums depend on the shape of the batch in the seventh digit. "up to rounding": likewise in the
        third digit, which may change a prediction.
        """
        if self.dtype == "int8" or self.runtime == "native":
            return "to the last bit"
        return "up to rounding" if self.dtype in ("bf16", "fp16") else "up to ties"

    @property
    def precision(self) -> torch.dtype:
        """The precision as a torch dtype."""
        import torch

        dtype: torch.dtype = getattr(torch, TORCH_DTYPES[self.dtype])
        return dtype

    def backend(self, loaded: Checkpoint) -> tuple[Backend, str]:
        """Return the backend that computes a model, and the name of its runtime; unneeded libraries are not imported.

        "auto" selects the compiled kernel for fp32 and int8 on a CPU, torch for other precisions there, and CUDA graphs
        on a GPU. With a warning, numpy replaces a kernel that "auto" has selected and that is not available, and torch
        CUDA graphs that cannot run or disagree with it. Raises ValueError if the requested runtime is not available, or
        CheckpointError if the model's scores are not finite.
        """
        self._check_supported()
        automatic = "graphs" if self.device != "cpu" else "native" if self.dtype in ("fp32", "int8") else "torch"
        name = automatic if self.runtime == "auto" else self.runtime
        try:
            return self._open(name, loaded), name
        except NoKernelError as why:
            if self.dtype == "int8":
                remedy = f"use fp32, {COMPILER}"
                raise ValueError(f"int8 needs the compiled kernel, not available here: {why}; {remedy}") from why
            if self.runtime == "native":
                raise ValueError(f"the native runtime is not available here: {why}") from why
            other = "torch" if name == "graphs" else "numpy"
            message = f"torch replaces the graphs runtime: {why}" if name == "graphs" else f"{SLOW} ({why})"
            warnings.warn(message, stacklevel=2)
            return self._open(other, loaded), other

    def _open(self, runtime: str, loaded: Checkpoint) -> Backend:
        """Return the checked backend of a runtime, imported now; NoKernelError if it cannot compute the model here."""
        where = str(loaded.folder)
        if runtime == "native":
            from chemspec.model.runners.native.runner import NativeBackend

            kernel = NativeBackend(loaded.weights, threads=self.threads, int8=self.dtype == "int8")
            probe(kernel, loaded.config, where=where)
            return kernel
        if runtime == "numpy":
            from chemspec.model.runners.numpy_runner import NumpyBackend

            arrays = NumpyBackend(loaded.weights)
            probe(arrays, loaded.config, where=where)
            return arrays
        from chemspec.model.runners.torch_runner import TorchBackend

        model = loaded.model.to(device=self.device, dtype=self.precision)
        plain = TorchBackend(model)
        if runtime == "torch":
            probe(plain, loaded.config, where=where)
            return plain
        from chemspec.model.runners.cuda_graphs import GraphBackend

        try:
            graphs = GraphBackend(model)
            probe(graphs, loaded.config, where=where, reference=plain, dtype=self.dtype)
            graphs.record_common()
        except NoKernelError:
            raise
        except Exception as error:  # drivers raise errors of many types
            raise UnsupportedError(f"it cannot run here: {error}") from error
        return graphs

    def _check_supported(self) -> None:
        """Raise ValueError if the runtime does not compute this precision on this device."""
        kind = "cpu" if self.device == "cpu" else "cuda"
        tables = RUNTIMES if self.runtime == "auto" else {self.runtime: RUNTIMES[self.runtime]}
        if not any(self.dtype in able.get(kind, ()) for able in tables.values()):
            runtime = "any runtime" if self.runtime == "auto" else f"the {self.runtime} runtime"
            raise ValueError(
                f"{self.dtype} is not computed by {runtime} on {self.device}: native computes fp32 and int8 on a CPU, "
                f"numpy fp32 there, torch {', '.join(FLOATS)} on a CPU or a GPU, and graphs the same on a GPU"
            )

    def curve(self, digest: str, backend: Backend, config: ModelConfig | ModelDims) -> CostCurve:
        """Return the cost curve of a model on this machine, cached on disk."""
        with self.torch_scope():
            batches = BATCHES if gpu.device_name(self.device) else ()
            slow = self.runtime != "native" or getattr(config, "d_model", 0) >= LARGE
            quick = self.device == "cpu" and slow
            # The kernel computes in this thread alone: then only its own time counts, however busy the machine is.
            alone = self.runtime == "native" and self.threads == 1
            precise = time.get_clock_info("thread_time").resolution < 1e-6
            clock = time.thread_time if alone and precise else time.perf_counter
            measured = partial(measure_cost_curve, backend, config, clock, batches=batches, quick=quick)
            return cached_curve(self.cache_name(digest), measured)

    def cache_name(self, digest: str) -> str:
        """Return the name under which measurements of a model in this runtime are cached."""
        gpu_name = "".join(filter(str.isalnum, gpu.device_name(self.device)))
        parts = digest, self.runtime, self.device.replace(":", ""), gpu_name, self.dtype, str(self.threads)
        return "-".join(filter(None, parts))

    def torch_scope(self) -> AbstractContextManager[None]:
        """Set torch's number of threads within the context, and restore it afterwards.

        With the compiled kernel torch gets one thread: its remaining work is too small to split, and idle threads
        that spin would take time from the kernel.
        """
        return set_torch_threads(1 if self.runtime == "native" else self.threads)


def _resolve_device(name: str) -> str:
    if name == "auto":
        if notice := gpu.first_gpu_notice():
            warnings.warn(notice, stacklevel=2)
        return "cuda" if gpu.gpu_count() else "cpu"
    if not re.fullmatch("cpu|cuda(:[0-9]+)?", str(name)):
        raise ValueError(f"no device {name!r}; use auto, cpu, cuda or cuda:N")
    if name != "cpu":
        extras.require_packages("torch", what=f"the device {name}")
    if name != "cpu" and int(name.partition(":")[2] or 0) >= (count := gpu.gpu_count()):
        raise ValueError(f"there is no usable GPU {name!r} on this machine, which has {count}; use the device cpu")
    return name
