"""`tree.grower`, compiled: the same trees in a fraction of the time."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from ctypes import c_char_p, c_double, c_int32, c_void_p
from functools import lru_cache
from pathlib import Path

from chemspec.draft.copy import TokenClasses
from chemspec.draft.tree.builder import Tree, TreeLimits
from chemspec.draft.tree.copy_state import beginning
from chemspec.draft.tree.edit_ngrams import EditNgramTable
from chemspec.system import compiled
from chemspec.tokenizer import EOS
from chemspec.types import Prefix

SOURCE = Path(__file__).with_name("tree.cpp")
FLAGS = ("-ffp-contract=off",)  # fused multiply-adds would round otherwise than Python does
LONGEST = 500  # tokens of a query whose places the compiled sets can hold


class _Table(ctypes.Structure):
    _fields_ = (("slots", c_void_p), ("starts", c_void_p), ("steps", c_char_p), ("bits", c_int32))


class _Query(ctypes.Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("text", "rings")),
        *((name, c_int32) for name in ("length", "labels", "place", "pointer")),
    )


class _Limits(ctypes.Structure):
    _fields_ = (
        ("least", c_double),
        *((name, c_void_p) for name in ("rates", "seconds")),
        *((name, c_int32) for name in ("nodes", "length", "paths", "eos")),
    )


class _Nodes(ctypes.Structure):
    _fields_ = tuple((name, c_void_p) for name in ("parents", "tokens", "places", "shares", "chances"))


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """The compiled code, or none where it cannot be had."""
    try:
        return compiled.load(SOURCE, *FLAGS)
    except compiled.NoKernel:
        return None


class NativeTreeBuilder:
    """Trees of one query. Not for queries of more than `LONGEST` tokens."""

    def __init__(
        self, library: ctypes.CDLL, phrases: EditNgramTable, source: Sequence[int], marks: TokenClasses
    ) -> None:
        self._run = library.chemspec_grow
        packed, start = phrases.packed, beginning(source, marks)
        text, rings = array("i", (*source, EOS)), array("i", marks.rings)
        self._table = _Table(_at(packed.slots), _at(packed.starts), packed.steps, packed.bits)
        self._query = _Query(_at(text), _at(rings), len(text), len(rings), start.place, start.pointer)
        self._kept = (packed, text, rings)  # the structures hold no more than addresses

    def __call__(self, prefix: Prefix, limits: TreeLimits) -> Tree:
        room = limits.nodes
        whole, real = c_int32 * room, c_double * room
        values = whole(), whole(), whole(), real(), real()
        rates, seconds = array("d", limits.rates), array("d", limits.seconds)
        given = _Limits(
            limits.least,
            _at(rates) if rates else None,
            _at(seconds) if seconds else None,
            *(room, limits.length, limits.paths, EOS),
        )
        into = _Nodes(*[ctypes.addressof(one) for one in values])
        text, byref = array("i", prefix), ctypes.byref
        count = self._run(
            byref(self._table), byref(self._query), byref(given), c_void_p(_at(text)), len(text), byref(into)
        )
        if count < 0:
            raise MemoryError("there is not enough memory to draft")
        parents, tokens, places, shares, chances = values
        return Tree(parents[:count], tokens[:count], places[:count], shares[:count], chances[:count])


def _at(values: array) -> int:  # type: ignore[type-arg]
    return values.buffer_info()[0]
