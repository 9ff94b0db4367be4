"""Structures shared by the compiled loop and Python; the fields match those in `loop.cpp` and its headers."""

from __future__ import annotations

import ctypes
from array import array
from ctypes import POINTER, c_double, c_int32, c_void_p
from dataclasses import fields
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from chemspec.draft.tree.edit_ngrams import EditNgramTable

# Arguments: the loop, the query, a prefix, its length, the maximum draft length. Returns 1, or 0 after an exception.
ProposeCallback = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int32, POINTER(c_int32), c_int32, c_int32)
TYPES = {"int": c_int32, "double": c_double, "pointer": c_void_p}


def _fields_of(*declarations: str) -> tuple[tuple[str, Any], ...]:
    """Return the fields of declarations, each a type and the names of its fields."""
    words = (declaration.split() for declaration in declarations)
    return tuple((name, TYPES[kind]) for kind, *names in words for name in names)


class BeamConfigStruct(ctypes.Structure):
    """Parameters of a search; width 0 means greedy decoding."""

    _fields_ = _fields_of("int width max_len", "double length_penalty park_gap", "int has_next_search")


class TableStruct(ctypes.Structure):
    """Addresses of an `EditNgramTable`'s columns; the table must outlive it."""

    _fields_ = tuple((column.name, c_void_p) for column in fields(EditNgramTable))

    @classmethod
    def from_table(cls, edit_table: EditNgramTable) -> TableStruct:
        """Return the structure of a table."""
        return cls(*[array_address(getattr(edit_table, column.name)) for column in fields(edit_table)])


class MergingArgs(ctypes.Structure):
    """A `draft.merging.Merging`; no merges if `count` is 0."""

    _fields_ = (*_fields_of("int count"), *((name, POINTER(c_int32)) for name in ("merges", "parts", "starts")))


class DrafterArgs(ctypes.Structure):
    """Description of a drafter."""

    _fields_ = (
        *_fields_of("int kind name copy_name length count nodes dot prompt_length labels"),
        ("rings", POINTER(c_int32)),
        ("merging", MergingArgs),
        ("table", POINTER(TableStruct)),
        ("propose", ProposeCallback),
    )


class LoopOptionsStruct(ctypes.Structure):
    """Limits and options of a run."""

    _fields_ = _fields_of("int max_len budget record threads fixed per_root vocab_size", "double factor")


class DraftPlannerArgs(ctypes.Structure):
    """Description of a planner: cost curve and prior acceptance rates."""

    _fields_ = (
        *_fields_of("int points classes measured", "double call_seconds"),
        *((name, POINTER(c_double)) for name in ("nodes", "seconds", "priors")),
    )


class DraftHistoryStruct(ctypes.Structure):
    """A `draft_history.DraftHistory`."""

    _fields_ = (
        *_fields_of("double net_gain pause pause_left value_share idle_runs"),
        ("hits", POINTER(c_double)),
        ("tries", POINTER(c_double)),
        ("factors", POINTER(c_double)),
    )


class PassState(ctypes.Structure):
    """State of the next forward pass, written by the compiled code."""

    _fields_ = _fields_of(
        *("int active requested waiting rows", "pointer columns", "int released compacted", "pointer queries"),
        *("int passes", "pointer times"),
    )


class RecordView(ctypes.Structure):
    """Sizes and addresses of a query's record."""

    _fields_ = _fields_of(
        "int passes answers done written standard node_stride",
        "pointer pass_rows margins beam nodes node_rows draft_rows draft_tokens draft_places draft_chances",
    )


class PassRow(NamedTuple):
    """A `PassRecord` of `records.h`: counts, the best hypothesis, and how many entries of the lists are its own."""

    requested: int
    computed: int
    emitted: int
    width: int
    before: int
    leading: int
    written: int
    drafts: int
    drafts_count: int
    beam: int
    nodes: int


class NodeRow(NamedTuple):
    """A `NodeRow` of `node_tree.h`: a prefix by its last token, and the number of the draft that contains it, or -1."""

    parent: int
    token: int
    depth: int
    draft: int
    position: int
    reused: int


class DraftRow(NamedTuple):
    """A `Draft` of `drafters.h`: its span if `spanned`, and where its tokens, positions and probabilities begin."""

    name: int
    start: int
    length: int
    spanned: int
    from_: int
    to: int
    match: int
    positions: int
    positions_count: int
    probs: int
    probs_count: int


Row = TypeVar("Row", PassRow, NodeRow, DraftRow)
LAYOUTS: dict[type[Any], Struct] = {kind: Struct(f"={len(kind._fields)}i") for kind in (PassRow, NodeRow, DraftRow)}


def array_address(values: array[Any]) -> int:
    """Return the memory address of an array."""
    return values.buffer_info()[0]


def read_array(code: str, start: int | None, count: int, first: int = 0) -> list[Any]:
    """Read `count` numbers of an `array` type code from the array at an address, starting with number `first`."""
    return copy_array(code, start, count, first).tolist()


def copy_array(code: str, start: int | None, count: int, first: int = 0) -> array[Any]:
    """Copy `count` numbers, as `read_array` reads them; large ones are not made Python objects."""
    numbers = array(code)
    if start and count:
        numbers.frombytes(ctypes.string_at(start + numbers.itemsize * first, numbers.itemsize * count))
    return numbers


def read_rows(kind: type[Row], start: int | None, count: int, first: int = 0) -> list[Row]:
    """Read structures of integers, as `read_array` reads numbers."""
    layout = LAYOUTS[kind]
    raw = ctypes.string_at(start + layout.size * first, layout.size * count) if start and count else b""
    return list(map(kind._make, layout.iter_unpack(raw)))


def read_row(kind: type[Row], start: int, number: int, stride: int = 0) -> Row:
    """Read one structure of integers; one begins every `stride` bytes, by default directly after the one before."""
    layout = LAYOUTS[kind]
    raw = ctypes.string_at(start + number * (stride or layout.size), layout.size)
    return kind._make(layout.unpack(raw))
