"""Atom maps by compiled code (`atom_maps.cpp`), the same as those of `atom_maps.py` in a fiftieth of the time."""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Sequence
from ctypes import POINTER, byref, c_double, c_int, c_int32
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from chemspec.system import compile_later, compiled

if TYPE_CHECKING:
    from chemspec.chem.mol_graph import MolGraph

SOURCE = Path(__file__).with_name("atom_maps.cpp")
NOT_MAPPED, OUT_OF_TIME, FINISHED = range(3)
_FIELDS = ("kinds", "molecules", "ranks", "first", "near", "orders")


class GraphArrays(ctypes.Structure):
    """A graph as `atom_maps.cpp` reads it; keeps the arrays that it points to."""

    _fields_ = (("atoms", c_int32), ("steps", c_int32), *((name, POINTER(c_int32)) for name in _FIELDS))

    def __init__(self, graph: MolGraph) -> None:
        first, near, orders = [0], list[int](), list[float]()
        for bonds in graph.bonds:
            near += bonds
            orders += bonds.values()
            first.append(len(near))
        kinds, twice = chain.from_iterable(graph.kinds), [int(order + order) for order in orders]
        self.arrays = [array("i", column) for column in (kinds, graph.molecules, graph.ranks, first, near, twice)]
        pointers = (ctypes.cast(each.buffer_info()[0], POINTER(c_int32)) for each in self.arrays)
        super().__init__(len(graph.kinds), len(near), *pointers)


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """Return the compiled code; None where it is not there yet or cannot be compiled: `atom_maps.py` does then."""
    loaded = compile_later.load_or_schedule(SOURCE, (), __name__)
    if loaded is not None:
        loaded.chemspec_map_atoms.argtypes = (
            *(POINTER(GraphArrays), POINTER(GraphArrays), POINTER(c_int32), POINTER(c_int32)),
            *(c_double, c_int, POINTER(c_int32)),
        )
    return loaded


def map_compiled(
    code: ctypes.CDLL,
    left: MolGraph,
    right: MolGraph,
    costs: Sequence[int],
    *,
    seconds: float = -1.0,
    started: Sequence[int] = (),
) -> tuple[int, list[int]]:
    """Return whether the map is finished, and for each atom of the right side its origin, or -1.

    `seconds` limit the processor time of this thread; negative: they do not. With `started`, a map, only `improve`
    runs on it.
    """
    origins = (c_int32 * len(right.kinds))(*started)
    weights = (c_int32 * len(costs))(*costs)
    breaks = ctypes.cast(left.break_array.buffer_info()[0], POINTER(c_int32))
    graphs = byref(left.arrays), byref(right.arrays)
    state = code.chemspec_map_atoms(*graphs, breaks, weights, c_double(seconds), bool(started), origins)
    return state, list(origins)


if __name__ == "__main__":  # by `compile_later`
    if hasattr(os, "nice"):
        os.nice(10)
    compiled.load_library(SOURCE)
