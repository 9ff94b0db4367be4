"""What a pass launches, and what its kernels need of a GPU; all without a GPU.

The kernels are compiled as for a GPU, and their registers, spills and shared memory read from the machine code. A pass
is run on tensors without data and its launches are counted.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from chemspec.model.runners.triton import kernels
from chemspec.model.runners.triton.runner import DecoderPass, EncoderPass, RecordedPass, TritonBackend
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig

TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.int32: "*i32"}
KERNELS: dict[str, Any] = {name: value for name, value in vars(kernels).items() if name.endswith("_kernel")}


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel.

    Attributes:
        kernel: its name.
        grid: programs.
        arguments: by name; tensors have no data.
        options: warps and stages.
    """

    kernel: str
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    options: dict[str, int]

    @property
    def variant(self) -> tuple[Any, ...]:
        """What makes the compiler compile it anew."""
        return self.kernel, *(
            (name, TYPES[value.dtype] if isinstance(value, Tensor) else value if name.isupper() else type(value))
            for name, value in self.arguments.items()
        )


@dataclass(frozen=True)
class Usage:
    """What one variant of a kernel needs: registers a thread, bytes spilled to memory, bytes of shared memory."""

    kernel: str
    architecture: int
    registers: int
    spilled: int
    shared: int


@dataclass
class _Recorder:
    """Stands in for a kernel."""

    kernel: JITFunction[Any]
    launches: list[Launch] = field(default_factory=list)

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*values: Any, **options: int) -> None:
            arguments = dict(zip(self.kernel.arg_names, values, strict=True))
            self.launches.append(Launch(self.kernel.__name__, grid, arguments, options))

        return launch


@contextmanager
def _recorded() -> Iterator[list[Launch]]:
    """Let launches be taken down instead of carried out."""
    launches: list[Launch] = []
    for name, kernel in KERNELS.items():
        vars(kernels)[name] = _Recorder(kernel, launches)
    try:
        yield launches
    finally:
        for name, kernel in KERNELS.items():
            vars(kernels)[name] = kernel


def launches(config: ModelConfig, rows: int, *, encoder: bool = False, states: bool = True) -> list[Launch]:
    """Return what a pass of a model launches, in order.

    Args:
        config: of the model; its weights are bf16, as those shipped are.
        rows: nodes, or source tokens.
        encoder: of the encoder instead of the decoder.
        states: with the hidden states given out.
    """
    with torch.device("meta"):
        model = Transformer(config)
    backend = TritonBackend(model, torch.device("meta"))
    done: RecordedPass
    done = EncoderPass(backend, rows) if encoder else DecoderPass(backend, rows, 10, states)
    with _recorded() as found, torch.inference_mode():
        done.host = done.inputs
        if isinstance(done, DecoderPass):
            done.results = done.best
        done.compute()
    return found


def compiled(launch: Launch, architecture: int) -> Usage:
    """Compile a kernel as for a launch and return what it needs."""
    kernel = KERNELS[launch.kernel]
    values = list(launch.arguments.items())
    signature = {name: _type(name, value) for name, value in values}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, (name, value) in enumerate(values)
        if isinstance(value, Tensor) and name not in (kernel.do_not_specialize_on_alignment or ())
    }
    constants = {name: value for name, value in values if signature[name] == "constexpr"}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    done = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=launch.options)
    registers, stack, local = _usage(done.asm["cubin"])
    return Usage(launch.kernel, architecture, registers, stack + local, done.metadata.shared)


def _type(name: str, value: Any) -> str:
    if name.isupper():
        return "constexpr"
    if isinstance(value, Tensor):
        return TYPES[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


def _usage(machine_code: bytes) -> tuple[int, int, int]:
    """Registers, and bytes of stack and of local memory, as NVIDIA's own tool reads them."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(machine_code)
        file.flush()
        done = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True)
    found = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", done.stdout))
    return int(found["REG"]), int(found["STACK"]), int(found["LOCAL"])
