"""Device, precision, runtime and threads of a model, and the cost of a forward pass there."""

from __future__ import annotations

import os
import time
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from chemspec.model.checkpoint import Checkpoint, check_finite_scores
from chemspec.model.cost import BATCHES, CostCurve, cached_curve, cached_number, fastest_batch, measure_cost_curve
from chemspec.model.session import Backend
from chemspec.settings import ModelConfig, ModelDims
from chemspec.system import extras, gpu
from chemspec.system.threads import set_torch_threads, usable_cores

if TYPE_CHECKING:
    import torch

RUNTIMES = ("auto", "native", "onnx", "torch", "graphs", "triton")
SLOW = (
    "forward passes are computed by torch, which is several times slower: install a C++ compiler, "
    "or pip install 'chemspec[onnx]'"
)
# Precision of torch; for int8 that of drafters with a network of their own.
DTYPES = {"fp32": "float32", "int8": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}


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

        Raises:
            ValueError: for a device, precision or runtime that is unknown or not available.
        """
        if threads < 0:
            raise ValueError(f"{threads} threads; give at least 1, or 0 for all cores")
        if dtype not in ("auto", *DTYPES):
            raise ValueError(f"no precision {dtype!r}; there are {', '.join(DTYPES)}")
        if runtime not in RUNTIMES:
            raise ValueError(f"no runtime {runtime!r}; there are {', '.join(RUNTIMES)}")
        dtype = "fp32" if dtype == "auto" else dtype
        device = _resolve_device(device)
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
        if self.runtime in ("native", "triton") or self.dtype == "int8":
            return "to the last bit"
        return "up to rounding" if self.dtype in ("bf16", "fp16") else "up to ties"

    @property
    def precision(self) -> torch.dtype:
        """The precision as a torch dtype."""
        import torch

        precision: torch.dtype = getattr(torch, DTYPES[self.dtype])
        return precision

    def backend(self, loaded: Checkpoint) -> tuple[Backend, str]:
        """Return the backend that computes a model, and the name of its runtime; unneeded libraries are not imported.

        On a CPU "auto" selects the compiled kernel, else ONNX Runtime if it is installed, else torch with a warning.
        On a GPU it selects CUDA graphs. If the Triton kernels are not available or disagree with torch, CUDA graphs
        replace them, with a warning. Only the compiled kernel computes int8.

        Raises:
            ValueError: if the requested runtime is not available.
            CheckpointError: if the model's scores are not finite.
        """
        self._check_supported()
        runtime = self.runtime
        if runtime == "auto":
            on_cpu = "native" if self.dtype in ("fp32", "int8") else "torch"
            runtime = on_cpu if self.device == "cpu" else "graphs"
        if runtime == "native":
            from chemspec.model.runners.native.runner import NativeBackend, NoKernelError

            try:
                backend = NativeBackend(loaded.weights, threads=self.threads, int8=self.dtype == "int8")
                check_finite_scores(backend, loaded.config, where=str(loaded.folder))
                return backend, "native"
            except NoKernelError as why:
                if self.dtype == "int8":
                    remedy = "use fp32, or install a C++ compiler"
                    raise ValueError(f"int8 needs the compiled kernel, not available here: {why}; {remedy}") from why
                if self.runtime == "native":
                    raise ValueError(f"the native runtime is not available here: {why}") from why
                runtime = "onnx" if extras.is_installed("onnx") and extras.is_installed("onnxruntime") else "torch"
                if runtime == "torch":
                    warnings.warn(f"{SLOW} ({why})", stacklevel=2)
        if runtime == "onnx":
            extras.require_packages("onnx", "onnxruntime", what="the onnx runtime")
            from chemspec.model.runners.onnx_runner import OnnxBackend  # spares GPU boxes the import

            return OnnxBackend(loaded.model, digest=loaded.digest, threads=self.threads), "onnx"
        if runtime == "triton":
            import torch

            from chemspec.model.runners.triton.runner import UnsupportedError, open_checked_backend

            try:
                return open_checked_backend(loaded.model, torch.device(self.device), self.dtype), "triton"
            except UnsupportedError as why:
                runtime = "graphs"
                warnings.warn(f"falling back from the triton runtime to CUDA graphs: {why}", stacklevel=2)
        model = loaded.model.to(device=self.device, dtype=self.precision)
        if runtime == "graphs":
            from chemspec.model.runners.cuda_graphs import GraphBackend

            return GraphBackend(model), "graphs"
        from chemspec.model.runners.torch_runner import TorchBackend

        return TorchBackend(model), "torch"

    def _check_supported(self) -> None:
        """Raise ValueError if the runtime does not compute this precision on this device."""
        runtime, where = self.runtime, f"{self.dtype} on {self.device}"
        cpu = self.device == "cpu"
        if self.dtype == "int8" and (runtime not in ("auto", "native") or not cpu):
            given = f"by the {runtime} runtime; choose native or auto, or fp32"
            given = given if cpu else f"on {self.device}; use fp32 or bf16 there"
            raise ValueError(f"int8 is computed by the native runtime on a CPU, not {given}")
        if runtime == "native" and not (cpu and self.dtype in ("fp32", "int8")):
            raise ValueError(f"the native runtime computes in fp32 or int8 on a CPU, not in {where}")
        if runtime == "onnx" and not (cpu and self.dtype == "fp32"):
            raise ValueError(f"the onnx runtime computes in fp32 on a CPU, not in {where}")
        interpreted = runtime == "triton" and os.environ.get("TRITON_INTERPRET") == "1"  # testable without a GPU
        if runtime in ("graphs", "triton") and cpu and not interpreted:
            raise ValueError(f"the {runtime} runtime needs a GPU")

    def curve(self, digest: str, backend: Backend, config: ModelConfig | ModelDims) -> CostCurve:
        """Return the cost curve of a model on this machine, cached on disk.

        Args:
            digest: digest of the weights.
            backend: the model.
            config: the model's dimensions.
        """
        sizes = config.vocab_size, config.max_positions
        batches = BATCHES if gpu.device_name(self.device) else ()
        with self.torch_scope():
            measured = partial(measure_cost_curve, backend, *sizes, time.perf_counter, batches=batches)
            return cached_curve(f"{self._cache_key(digest)}-{self.threads}", measured)

    def fastest_batch(self, digest: str, backend: Backend, config: ModelConfig | ModelDims, *, rows: int) -> int:
        """Return the fastest batch size of a model on this machine, cached on disk.

        Args:
            digest: digest of the weights.
            backend: the model.
            config: the model's dimensions.
            rows: new nodes of a query in a pass: the width of a beam.
        """
        sizes = config.vocab_size, config.max_positions
        with self.torch_scope():
            measured = partial(fastest_batch, backend, *sizes, time.perf_counter, rows=rows)
            return cached_number(f"{self._cache_key(digest)}-{self.threads}-{rows}.batch", measured)

    def _cache_key(self, digest: str) -> str:
        """Return the cache key of this model, runtime and device."""
        name = "".join(filter(str.isalnum, gpu.device_name(self.device)))
        return "-".join((digest, self.runtime, self.device.replace(":", ""), *filter(None, [name]), self.dtype))

    def torch_scope(self) -> AbstractContextManager[None]:
        """Set torch's number of threads within the context, and restore it afterwards.

        With the compiled kernel torch gets one thread: its remaining work is too small to split, and idle threads
        that spin would take time from the kernel.
        """
        return set_torch_threads(1 if self.runtime == "native" else self.threads)


def _resolve_device(name: str) -> str:
    if name == "auto":
        return "cuda" if gpu.gpu_available() else "cpu"
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise ValueError(f"no device {name!r}; use auto, cpu or cuda")
    if kind == "cuda" and not gpu.gpu_available():
        raise ValueError("there is no usable GPU on this machine; use --device cpu")
    return name
