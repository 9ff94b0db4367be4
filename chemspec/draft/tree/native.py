"""Compiled version of `builder.python_tree_builder`, with the same trees in a fraction of the time."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from ctypes import c_double, c_int32, c_void_p
from dataclasses import fields
from functools import lru_cache
from pathlib import Path

from chemspec.draft.copy import MAX_MATCH, MAX_SKIP, TokenClasses
from chemspec.draft.tree.builder import PROBES, Tree, TreeLimits
from chemspec.draft.tree.copy_state import initial_state
from chemspec.draft.tree.edit_ngrams import COPY, EDGES, EditNgramTable
from chemspec.system import compiled
from chemspec.tokenizer import EOS, PAD
from chemspec.types import Prefix

SOURCE = Path(__file__).with_name("tree.cpp")
CONSTANTS = {
    "MAX_MATCH": MAX_MATCH,
    "MAX_SKIP": MAX_SKIP,
    "PROBES": ",".join(map(str, PROBES)),
    "EDGES": ",".join(map(repr, EDGES)),
    "COPY": COPY,
    "PAD": PAD,
    "EOS": EOS,
}
# Fused multiply-adds round differently from Python.
FLAGS = ("-ffp-contract=off", *(f"-D{name}={value}" for name, value in CONSTANTS.items()))


class TableStruct(ctypes.Structure):
    """Addresses of an `EditNgramTable`'s columns; the table must outlive it."""

    _fields_ = tuple((field.name, c_void_p) for field in fields(EditNgramTable))

    @classmethod
    def from_table(cls, edit_table: EditNgramTable) -> TableStruct:
        """Return the structure of a table."""
        return cls(*[getattr(edit_table, field.name).buffer_info()[0] for field in fields(edit_table)])


class _QueryStruct(ctypes.Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("text", "rings")),
        *((name, c_int32) for name in ("length", "labels", "position", "pointer")),
    )


class LimitsStruct(ctypes.Structure):
    """`TreeLimits` as a C structure."""

    _fields_ = (
        ("min_chance", c_double),
        *((name, c_void_p) for name in ("accept_rates", "pass_seconds")),
        *((name, c_int32) for name in ("max_nodes", "max_length", "max_paths")),
    )

    @classmethod
    def from_limits(cls, limits: TreeLimits) -> LimitsStruct:
        """Return the structure, which keeps its arrays alive."""
        rates, seconds = array("d", limits.accept_rates), array("d", limits.pass_seconds)
        given = cls(
            limits.min_chance,
            _array_address(rates) if rates else None,
            _array_address(seconds) if seconds else None,
            *(limits.max_nodes, limits.max_length, limits.max_paths),
        )
        given.kept = rates, seconds  # the structure contains only addresses
        return given


class _TreeStruct(ctypes.Structure):
    _fields_ = tuple((name, c_void_p) for name in Tree._fields)


@lru_cache(maxsize=1)
def tree_library() -> ctypes.CDLL | None:
    """Return the compiled tree builder, or None if it cannot be compiled or loaded."""
    try:
        return compiled.load_library(SOURCE, *FLAGS)
    except compiled.NoKernelError:
        return None


class NativeTreeBuilder:
    """Builds the draft trees of one query in compiled code."""

    def __init__(
        self, library: ctypes.CDLL, edit_table: EditNgramTable, source: Sequence[int], token_classes: TokenClasses
    ) -> None:
        """Pass a query to the compiled code."""
        self._run = library.chemspec_build_tree
        start = initial_state(source, token_classes)
        text, rings = array("i", (*source, EOS)), array("i", token_classes.rings)
        self._table = TableStruct.from_table(edit_table)
        self._query = _QueryStruct(
            _array_address(text), _array_address(rings), len(text), len(rings), start.position, start.pointer
        )
        self._kept = (edit_table, text, rings)  # the structures contain only addresses

    def __call__(self, prefix: Prefix, limits: TreeLimits) -> Tree:
        """Build the tree of the most probable nodes after a prefix."""
        integers, reals = c_int32 * limits.max_nodes, c_double * limits.max_nodes
        columns = integers(), integers(), integers(), reals(), reals()  # as `Tree` has them
        given = LimitsStruct.from_limits(limits)
        into = _TreeStruct(*[ctypes.addressof(column) for column in columns])
        text, byref = array("i", prefix), ctypes.byref
        count = self._run(
            byref(self._table), byref(self._query), byref(given), c_void_p(_array_address(text)), len(text), byref(into)
        )
        if count < 0:
            raise MemoryError("there is not enough memory to draft")
        parents, tokens, positions, steps, paths = columns
        return Tree(parents[:count], tokens[:count], positions[:count], steps[:count], paths[:count])


def _array_address(values: array) -> int:  # type: ignore[type-arg]
    return values.buffer_info()[0]
