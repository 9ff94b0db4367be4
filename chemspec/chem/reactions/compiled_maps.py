"""Atom maps by compiled code (`atom_maps.cpp`), the same as those of `atom_maps.py` in a fiftieth of the time."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_double, c_int, c_int32
from functools import lru_cache
from itertools import chain
from pathlib import Path

from chemspec.system import compile_later, compiled

SOURCE = Path(__file__).with_name("atom_maps.cpp")
NOT_MAPPED, OUT_OF_TIME, FINISHED = range(3)
_FIELDS = ("kinds", "molecules", "ranks", "first", "near", "orders")


class GraphArrays(ctypes.Structure):
    """A graph as `atom_maps.cpp` reads it; keeps the arrays that it points to."""

    _fields_ = (("atoms", c_int32), ("steps", c_int32), *((name, POINTER(c_int32)) for name in _FIELDS))

    def __init__(
        self,
        kinds: Sequence[Sequence[int]],
        bonds: Sequence[Mapping[int, float]],
        molecules: Sequence[int],
        ranks: Sequence[int],
    ) -> None:
        first, near, orders = [0], list[int](), list[float]()
        for of_atom in bonds:
            near += of_atom
            orders += of_atom.values()
            first.append(len(near))
        flat, twice = chain.from_iterable(kinds), [int(order + order) for order in orders]
        self.arrays = [array("i", column) for column in (flat, molecules, ranks, first, near, twice)]
        pointers = (ctypes.cast(each.buffer_info()[0], POINTER(c_int32)) for each in self.arrays)
        super().__init__(len(kinds), len(near), *pointers)


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
    left: GraphArrays,
    right: GraphArrays,
    break_costs: array[int],
    costs: Sequence[int],
    *,
    seconds: float = -1.0,
    started: Sequence[int] = (),
) -> tuple[int, list[int]]:
    """Return whether the map is finished, and for each atom of the right side its origin, or -1.

    `break_costs` are those of the bonds on the left, in their order, `costs` those of `atom_maps.py`. `seconds` limit
    the processor time of this thread; negative: they do not. With `started`, a map, only `improve` runs on it.
    """
    origins = (c_int32 * right.atoms)(*started)
    weights = (c_int32 * len(costs))(*costs)
    breaks = ctypes.cast(break_costs.buffer_info()[0], POINTER(c_int32))
    state = code.chemspec_map_atoms(
        byref(left), byref(right), breaks, weights, c_double(seconds), bool(started), origins
    )
    return state, list(origins)


if __name__ == "__main__":  # by `compile_later`
    compile_later.lower_priority()
    compiled.load_library(SOURCE)
