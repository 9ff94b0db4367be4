"""Lets Triton compile what passes of several sizes launch, as for a GPU that is not here; run by `test_triton.py`.

Prints, after each size, how many different machine codes each kernel has had.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton_resources import KERNELS

from chemspec.model.runners.triton import kernels
from chemspec.model.runners.triton.runner import DecoderPass, EncoderPass, TritonBackend
from chemspec.model.transformer import Transformer
from chemspec.settings import preset_config


class NoGpu:
    """A driver that says what there would be; nothing is launched."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


class Compiled:
    """A kernel that is specialised and compiled as a launch would do it."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.codes: set[str] = set()

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*values: Any, **options: Any) -> None:
            self.codes.add(self.kernel.run(*values, grid=grid, warmup=True, **options).hash)

        return launch


def main() -> None:
    driver.set_active(NoGpu())
    stand_ins = {name: Compiled(value) for name, value in KERNELS.items()}
    vars(kernels).update(stand_ins)
    with torch.device("meta"):
        model = Transformer(preset_config("mt-4x4", vocab_size=279))
    backend = TritonBackend(model, torch.device("meta"))
    for rows, top_k in ((16, 10), (1, 1), (4, 2), (37, 5), (4096, 10)):
        passes = (EncoderPass(backend, rows), DecoderPass(backend, rows, top_k, True))
        for one in passes:
            one.inputs = torch.zeros(8, rows, dtype=torch.int32)  # of real addresses: rows of it are aligned or not
            one.host = one.inputs
            if isinstance(one, DecoderPass):
                one.results = one.best
            with torch.inference_mode():
                one.compute()
        print(json.dumps({name: len(one.codes) for name, one in stand_ins.items()}))  # noqa: T201


if __name__ == "__main__":
    main()
