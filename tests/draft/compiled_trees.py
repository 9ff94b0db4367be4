"""The compiled loop's tree builder, called alone."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from ctypes import c_double, c_int32, c_void_p

from chemspec.decode.compiled.structures import LimitsStruct, TableStruct, array_address
from chemspec.draft.copy import TokenClasses
from chemspec.draft.tree.builder import TreeLimits, TreeNode
from chemspec.draft.tree.copy_state import initial_state
from chemspec.draft.tree.edit_ngrams import EditNgramTable
from chemspec.tokenizer import EOS
from chemspec.types import Prefix


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

    def __init__(
        self, library: ctypes.CDLL, edit_table: EditNgramTable, source: Sequence[int], token_classes: TokenClasses
    ) -> None:
        """Pass a query to the compiled code."""
        self._run = library.chemspec_build_tree
        start = initial_state(source, token_classes)
        text, rings = array("i", (*source, EOS)), array("i", token_classes.rings)
        self._table = TableStruct.from_table(edit_table)
        self._query = _QueryStruct(
            array_address(text), array_address(rings), len(text), len(rings), start.position, start.pointer
        )
        self._kept = (edit_table, text, rings)  # the structures contain only addresses

    def __call__(self, prefix: Prefix, limits: TreeLimits) -> list[TreeNode]:
        """Build the tree of the most probable nodes after a prefix."""
        nodes, given = (_NodeStruct * limits.max_nodes)(), LimitsStruct.from_limits(limits)
        text, byref = array("i", prefix), ctypes.byref
        count = self._run(
            byref(self._table), byref(self._query), byref(given), c_void_p(array_address(text)), len(text), nodes
        )
        if count < 0:
            raise MemoryError("there is not enough memory to draft")
        return [TreeNode(*(getattr(node, name) for name in TreeNode._fields)) for node in nodes[:count]]
