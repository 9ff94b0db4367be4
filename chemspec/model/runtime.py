"""Where and how a model computes: device, precision, runtime, threads; and what a pass costs there."""

from __future__ import annotations

import os
import time
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from chemspec.model.checkpoint import Checkpoint, check_computes
from chemspec.model.cost import BATCHES, CostCurve, cached, cached_number, fastest_batch, measure
from chemspec.model.session import Backend
from chemspec.settings import ModelConfig, ModelDims
from chemspec.system import extras, gpu
from chemspec.system.threads import torch_threads, usable_cores

if TYPE_CHECKING:
    import torch

RUNTIMES = ("auto", "native", "onnx", "torch", "graphs", "triton")
SLOW = (
    "passes are computed by torch, some times slower than need be: install a C++ compiler, "
    "or pip install 'chemspec[onnx]'"
)
# What torch computes in; of int8 everything but products of whole numbers.
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
        """What `Engine.load` was asked for, with "auto" and 0 replaced, except for the runtime: a model decides that.

        Raises:
            ValueError: for a device, precision or runtime that cannot be had.
        """
        if threads < 0:
            raise ValueError(f"{threads} threads; give at least 1, or 0 for all cores")
        if dtype not in ("auto", *DTYPES):
            raise ValueError(f"no precision {dtype!r}; there are {', '.join(DTYPES)}")
        if runtime not in RUNTIMES:
            raise ValueError(f"no runtime {runtime!r}; there are {', '.join(RUNTIMES)}")
        dtype = "fp32" if dtype == "auto" else dtype
        device = _device(device)
        if device.startswith("cuda"):
            gpu.avoid_cudnn_attention()
        return cls(device, dtype, runtime, threads or usable_cores())

    @property
    def exactness(self) -> str:
        """How far a prefix has the same scores whatever else is in the pass, and so how far drafts change nothing.

        "to the last bit": each row is computed by itself, or its sums have an order. "up to ties": the sums of a row
        depend on the shape of the pass, in the seventh digit. "up to rounding": likewise, in the third, which may
        change an answer.
        """
        if self.runtime in ("native", "triton") or self.dtype == "int8":
            return "to the last bit"
        return "up to rounding" if self.dtype in ("bf16", "fp16") else "up to ties"

    @property
    def precision(self) -> torch.dtype:
        """The precision, as torch calls it."""
        import torch

        found: torch.dtype = getattr(torch, DTYPES[self.dtype])
        return found

    def backend(self, loaded: Checkpoint) -> tuple[Backend, str]:
        """What computes a model here, and its runtime; imports what it needs only, and torch not for the kernel.

        On a CPU "auto" takes the compiled kernel; where it cannot be had ONNX Runtime; where that is not installed
        torch, with a warning. On a GPU it takes recorded graphs, and the kernels of "triton" in int8. Where these
        cannot be had or give other scores than torch, recorded graphs take their place, in int8 torch, with a warning.

        Raises:
            ValueError: if the runtime asked for cannot be had.
            CheckpointError: if the model computes scores that are no numbers.
        """
        runtime = self.runtime
        int8 = self.dtype == "int8"
        cpu = self.device == "cpu" and self.dtype in ("fp32", "int8")
        if runtime == "native" and not cpu:
            raise ValueError(
                f"the native runtime computes in fp32 or int8 on a CPU, not in {self.dtype} on {self.device}"
            )
        if runtime == "onnx" and not (cpu and not int8):
            raise ValueError(f"the onnx runtime computes in fp32 on a CPU, not in {self.dtype} on {self.device}")
        if runtime == "graphs" and int8:
            raise ValueError("the graphs runtime does not compute in int8; use triton, native or torch")
        interpreted = runtime == "triton" and os.environ.get("TRITON_INTERPRET") == "1"  # to try it without a GPU
        if runtime in ("graphs", "triton") and self.device == "cpu" and not interpreted:
            raise ValueError(f"the {runtime} runtime needs a GPU")
        if runtime == "native" or (runtime == "auto" and cpu):
            from chemspec.model.runners.native.runner import NativeBackend, NoKernelError

            try:
                backend = NativeBackend(loaded.weights, threads=self.threads, int8=int8)
                check_computes(backend, loaded.config, where=str(loaded.folder))
                return backend, "native"
            except NoKernelError as why:
                if runtime == "native":
                    raise ValueError(f"the native runtime cannot be had here: {why}") from why
                onnx = extras.installed("onnx") and extras.installed("onnxruntime")
                if int8 or not onnx:
                    warnings.warn(f"{SLOW} ({why})", stacklevel=2)
                    runtime = "torch"
        if runtime == "onnx" or (runtime == "auto" and cpu):
            extras.require("onnx", "onnxruntime", what="the onnx runtime")
            from chemspec.model.runners.onnx_runner import OnnxBackend  # spares GPU boxes the import

            return OnnxBackend(loaded.model, digest=loaded.digest, threads=self.threads), "onnx"
        if runtime == "triton" or (runtime == "auto" and int8 and not cpu):
            import torch

            from chemspec.model.runners.triton.runner import UnsupportedError, checked

            try:
                return checked(loaded.model, torch.device(self.device), self.dtype), "triton"
            except UnsupportedError as why:
                runtime, those = ("torch", "torch's") if int8 else ("graphs", "recorded graphs")
                warnings.warn(f"passes are {those}, not the triton runtime's: {why}", stacklevel=2)
        from chemspec.model.runners.torch_runner import TorchBackend

        model = loaded.model.to(device=self.device, dtype=self.precision)
        if int8:
            from chemspec.model.int8 import quantised

            return TorchBackend(quantised(model)), "torch"
        if runtime == "graphs" or (runtime == "auto" and self.device != "cpu"):
            from chemspec.model.runners.cuda_graphs import GraphBackend

            return GraphBackend(model), "graphs"
        return TorchBackend(model), "torch"

    def curve(self, digest: str, backend: Backend, config: ModelConfig | ModelDims) -> CostCurve:
        """Return what a pass of a model costs on this machine, from disk if it was measured before.

        Args:
            digest: of the weights.
            backend: what computes them.
            config: the model's dimensions.
        """
        sizes = config.vocab_size, config.max_positions
        batches = BATCHES if gpu.name_of(self.device) else ()
        with self.torch_scope():
            measured = partial(measure, backend, *sizes, time.perf_counter, batches=batches)
            return cached(f"{self._key(digest)}-{self.threads}", measured)

    def fastest_batch(self, digest: str, backend: Backend, config: ModelConfig | ModelDims, *, rows: int) -> int:
        """Return with how many queries at a time a model is fastest on this machine, from disk if it is known.

        Args:
            digest: of the weights.
            backend: what computes them.
            config: the model's dimensions.
            rows: new nodes of a query in a pass: the width of a beam.
        """
        sizes = config.vocab_size, config.max_positions
        with self.torch_scope():
            measured = partial(fastest_batch, backend, *sizes, time.perf_counter, rows=rows)
            return cached_number(f"{self._key(digest)}-{self.threads}-{rows}.batch", measured)

    def _key(self, digest: str) -> str:
        """Return what names this model, runtime and device in the cache."""
        name = "".join(filter(str.isalnum, gpu.name_of(self.device)))
        return "-".join((digest, self.runtime, self.device.replace(":", ""), *filter(None, [name]), self.dtype))

    def torch_scope(self) -> AbstractContextManager[None]:
        """Let torch compute with as many threads as are wanted here, and with the process's own number afterwards.

        Beside the compiled kernel it gets one: what is left for it is too small to share, and threads that wait for
        work would steal the kernel's time.
        """
        return torch_threads(1 if self.runtime == "native" else self.threads)


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if gpu.available() else "cpu"
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise ValueError(f"no device {name!r}; use auto, cpu or cuda")
    if kind == "cuda" and not gpu.available():
        raise ValueError("there is no usable GPU on this machine; use --device cpu")
    return name
