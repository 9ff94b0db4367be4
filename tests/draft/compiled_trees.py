"""The compiled loop's tree builder, called alone."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from ctypes import c_double, c_int32, c_void_p
from functools import cache
from pathlib import Path

from chemspec.decode.compiled.build import FLAGS
from chemspec.decode.compiled.structures import LimitsStruct, TableStruct, array_address
from chemspec.draft.copy import TokenClasses
from chemspec.draft.tree.builder import TreeLimits, TreeNode
from chemspec.draft.tree.copy_state import CopyTracker
from chemspec.draft.tree.edit_ngrams import EditNgramTable
from chemspec.system import compiled
from chemspec.tokenizer import BOS, EOS
from chemspec.types import Prefix


@cache
def tree_library() -> ctypes.CDLL:
    """The compiled tree builder."""
    return compiled.load_library(Path(__file__).with_name("build_tree.cpp"), *FLAGS)


class _QueryStruct(ctypes.Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("text", "rings")),
        *((name, c_int32) for name in ("length", "labels", "position", "pointer")),
    )


class _NodeStruct(ctypes.Structure):
    _fields_ = (
        *((name, c_int32) for name in ("parent", "token", "position")),
        *((name, c_double) for name in ("step_chance", "path_chance")),
    )


class NativeTreeBuilder:
    """Builds the draft trees of one query in compiled code."""

    def __init__(self, edit_table: EditNgramTable, source: Sequence[int], token_classes: TokenClasses) -> None:
        """Pass a query to the compiled code."""
        self._run = tree_library().chemspec_build_tree
        start = CopyTracker(source, token_classes).state_after((BOS,))
        text, rings = array("i", (*source, EOS)), array("i", token_classes.rings)
        self._table = TableStruct.from_table(edit_table)
        self._query = _QueryStruct(
            array_address(text), array_address(rings), len(text), len(rings), start.position, start.pointer
        )
        self._kept = (edit_table, text, rings)  # the structures contain only addresses

    def __call__(self, prefix: Prefix, limits: TreeLimits) -> list[TreeNode]:
        """Build the tree of the most probable nodes after a prefix."""
        nodes, columns = (_NodeStruct * limits.max_nodes)(), (limits.accept_rates, limits.pass_seconds)
        arrays = [array("d", column) for column in columns]
        starts = [array_address(column) if column else None for column in arrays]
        given = LimitsStruct(limits.min_chance, *starts, limits.max_nodes, limits.max_length, limits.max_paths)
        text, byref = array("i", prefix), ctypes.byref
        count = self._run(
            byref(self._table), byref(self._query), byref(given), c_void_p(array_address(text)), len(text), nodes
        )
        if count < 0:
            raise MemoryError("there is not enough memory to draft")
        return [TreeNode(*(getattr(node, name) for name in TreeNode._fields)) for node in nodes[:count]]
