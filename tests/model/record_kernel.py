"""Record what Python gives the kernel for a shipped model, and queries, for `replay_kernel.cpp` on another processor.

Records are a tag, eight integers, and arrays of bytes with their lengths: 1 model, 2 table, 3 linear layer, 4 the same
in int8, 5 norm, 6 query, 0 end.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import Any

import numpy as np

import chemspec
from chemspec.asset_files import bench_queries
from chemspec.model.runners.native import runner


def record(model: str, dtype: str, queries: int, file: Path) -> None:
    """Write the recording of a model's weights and of some built-in queries."""
    with file.open("wb") as out:
        load, kernels = runner.load_kernel, []

        def recorded() -> Any:
            kernels.append(Recorder(load(), out))
            return kernels[-1]

        runner.load_kernel = recorded  # type: ignore[assignment]
        try:
            engine = chemspec.load(model, dtype=dtype, device="cpu", threads=1, runtime="native")
        finally:
            runner.load_kernel = load
        for query in bench_queries(engine.task)[:queries]:
            ids = np.asarray(engine.prepare(query).ids, np.int32)
            kernels[0].put(6, [len(ids)], ids.tobytes())
        kernels[0].put(0, [])


class Recorder:
    """A kernel that writes the calls that give it a model; the first model only."""

    def __init__(self, library: ctypes.CDLL, out: Any) -> None:
        self.library, self.out, self.width, self.models = library, out, 0, 0
        library.chemspec_model.restype = ctypes.c_void_p
        self.chemspec_model = Function(self._model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)

    def put(self, tag: int, numbers: list[int], *arrays: bytes) -> None:
        self.out.write(struct.pack("<9i", tag, *numbers, *[0] * (8 - len(numbers))))
        for array in arrays:
            self.out.write(struct.pack("<q", len(array)) + array)

    def _model(self, sizes: Any, eps: Any, threads: int) -> Any:
        self.models += 1
        assert self.models == 1
        content = read(sizes, 64)
        self.width = struct.unpack("<16i", content)[0]
        self.put(1, [], content, struct.pack("<f", eps.value))
        return self.library.chemspec_model(sizes, eps, threads)

    def chemspec_table(self, model: Any, which: int, data: Any, rows: int) -> Any:
        self.put(2, [which, rows], read(data, 4 * rows * (self.width if which < 4 else 16)))
        return self.library.chemspec_table(model, which, data, rows)

    def chemspec_linear(
        self, model: Any, stack: int, layer: int, which: int, rows: int, columns: int, *data: Any
    ) -> Any:
        sizes = (4 * rows * columns, 4 * rows, 2 * rows * columns)
        self.put(3, [stack, layer, which, rows, columns], *map(read, data, sizes))
        return self.library.chemspec_linear(model, stack, layer, which, rows, columns, *data)

    def chemspec_linear_int8(
        self, model: Any, stack: int, layer: int, which: int, rows: int, columns: int, *data: Any
    ) -> Any:
        sizes = (rows * columns, 4 * rows, 4 * rows)
        self.put(4, [stack, layer, which, rows, columns], *map(read, data, sizes))
        return self.library.chemspec_linear_int8(model, stack, layer, which, rows, columns, *data)

    def chemspec_norm(self, model: Any, stack: int, layer: int, which: int, scale: Any, shift: Any) -> Any:
        self.put(5, [stack, layer, which], read(scale, 4 * self.width), read(shift, 4 * self.width))
        return self.library.chemspec_norm(model, stack, layer, which, scale, shift)


class Function:
    """A function of a library whose result type can be set, as that of ctypes."""

    def __init__(self, function: Any) -> None:
        self.function, self.restype = function, None

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def read(address: Any, size: int) -> bytes:
    """The bytes at an address; none at a null address."""
    value = getattr(address, "value", address)
    return ctypes.string_at(value, size) if value else b""
