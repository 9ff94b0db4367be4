"""Pages of KV caches on a device, and the inputs of forward passes that read them in path order (`pages.h`)."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterable, Sequence
from ctypes import byref, c_int, c_int32, c_void_p

from chemspec.model.runner import NodeBatch
from chemspec.model.runners.native.build import load_kernel
from chemspec.types import PluginError


class NewNodes(ctypes.Structure):
    """New nodes of a pass as columns; `owners`, `tokens`, `depths` and `parents` are addresses."""

    _fields_ = (("count", c_int32), *((name, c_void_p) for name in ("owners", "tokens", "depths", "parents")))

    @classmethod
    def of(cls, nodes: NodeBatch) -> NewNodes:
        """Return the columns of a batch, which the structure keeps alive."""
        columns = [
            column if type(column) is array and column.typecode == "i" else array("i", column)
            for column in (nodes.queries, nodes.tokens, nodes.depths, nodes.parents)
        ]
        new = cls(len(nodes.tokens), *(column.buffer_info()[0] for column in columns))
        new.columns = columns
        return new


class PassSizes(ctypes.Structure):
    """Sizes of a pass: most nodes of a query, most nodes of a path, groups of nodes; and how many pages are free."""

    _fields_ = tuple((name, c_int32) for name in ("width", "widest", "longest", "groups", "free"))


class PassInputs(ctypes.Structure):
    """Sizes of a padded pass, and addresses of its inputs on the host; see `PassInputs` in `pages.h`."""

    _fields_ = (
        *((name, c_int32) for name in ("groups", "width", "direct", "length", "first")),
        *((name, c_void_p) for name in ("pages", "embedded", "depths", "paths", "rows", "where")),
    )


class PageTable:
    """Which page each node of several queries lies in; a page never moves while its node is cached."""

    def __init__(self, vocab_size: int, positions: int, pages: Iterable[int], *, group: int) -> None:
        """Start without queries, with free pages; a pass has groups of up to `group` nodes of a query.

        Raises NoKernelError if compiled code is not available.
        """
        self._code = code = load_kernel()
        code.chemspec_pages.restype = c_void_p
        self._table = c_void_p(code.chemspec_pages(c_int(vocab_size), c_int(positions)))
        _check_memory(self._table.value)
        self._sizes = PassSizes(group)
        self.add(pages)

    def __del__(self) -> None:
        if getattr(self, "_table", None):
            self._code.chemspec_pages_close(self._table)

    def add(self, pages: Iterable[int]) -> None:
        """Add free pages, of which the last is taken first."""
        numbers = array("i", pages)
        _check_memory(self._code.chemspec_pages_add(self._table, c_void_p(numbers.buffer_info()[0]), len(numbers)))

    def join(self, row: int) -> None:
        """Add a query in a row of the batch; it gets the next number."""
        _check_memory(self._code.chemspec_pages_join(self._table, row))

    def measure(self, new: NewNodes) -> PassSizes:
        """Return the sizes of the pass of new nodes; raises PluginError if one of them cannot be computed."""
        if self._code.chemspec_pages_measure(self._table, byref(new), byref(self._sizes)) != 1:
            raise PluginError("a decoder requested token ids beyond the vocabulary, or too long a prefix")
        return self._sizes

    def write(self, new: NewNodes, inputs: PassInputs) -> None:
        """Take a page for each new node, of which there must be enough, and write the inputs of the pass."""
        _check_memory(self._code.chemspec_pages_write(self._table, byref(new), byref(inputs)))

    def keep(self, query: int, slots: Sequence[int]) -> None:
        """Keep these slots of a query, in this order, and free the pages of the others; see `Runner.compact`."""
        numbers = array("i", slots)
        address = c_void_p(numbers.buffer_info()[0])
        _check_memory(self._code.chemspec_pages_keep(self._table, query, address, len(numbers)))


def _check_memory(done: int | None) -> None:
    if not done:
        raise MemoryError("there is not enough memory for this batch; make it smaller")
