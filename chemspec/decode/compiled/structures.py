"""What the compiled loop and Python exchange: structures, field by field as `loop.cpp` and `drafters.h` have them."""

from __future__ import annotations

import ctypes
from array import array
from ctypes import POINTER, c_double, c_int32, c_int64, c_void_p
from struct import Struct
from typing import Any

# The loop, the query, a prefix, its length, and most tokens of a draft; returns whether all went well.
ProposeBack = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int32, POINTER(c_int32), c_int32, c_int32)


def _of(kind: Any, names: str) -> tuple[tuple[str, Any], ...]:
    return tuple((name, kind) for name in names.split())


class SearchRules(ctypes.Structure):
    """`Rules`; a width of 0 is greedy decoding."""

    _fields_ = (*_of(c_int32, "width max_len"), ("length_penalty", c_double), ("may_go_on", c_int32))


class DrafterArgs(ctypes.Structure):
    """The drafter of a run."""

    _fields_ = (
        *_of(c_int32, "kind name copy_name length count context dot prompt_length labels"),
        *_of(c_void_p, "rings table limits"),
        ("propose", ProposeBack),
    )


class LoopSpec(ctypes.Structure):
    """The limits of a run."""

    _fields_ = (
        *_of(c_int32, "max_len budget record threads fixed per_root"),
        ("factor", c_double),
        ("vocab_size", c_int64),
    )


class PlannerArgs(ctypes.Structure):
    """The planner of a run."""

    _fields_ = (
        *_of(c_int32, "points chances places levels foresees"),
        ("call_seconds", c_double),
        *_of(c_void_p, "nodes seconds chance_hits chance_tries place_hits place_tries level_hits level_tries"),
    )


class PassState(ctypes.Structure):
    """What Python has to know between two calls."""

    _fields_ = (
        *_of(c_int32, "active asked waiting rows"),
        ("columns", c_void_p),
        *_of(c_int32, "released compacted"),
        ("queries", c_void_p),
        *_of(c_int32, "bad_token bad_name passes"),
        ("times", c_void_p),
    )


class RecordView(ctypes.Structure):
    """Where the record of a query lies, and how much there is of it."""

    _fields_ = (
        *_of(c_int32, "passes spans beam grown drafts answers done written standard"),
        *_of(c_void_p, "pass_rows margins span_rows beams parents tokens sources"),
        *_of(c_void_p, "draft_rows draft_tokens draft_places draft_chances"),
    )


# asked, computed, emitted, accepted, width, spans, first draft, drafts, entries of the beam, nodes grown
PASS = Struct("=10i")
SPAN = Struct("=6i")  # start, length, name, whether there is a span, its two ends
# name, first token, tokens, whether there is a span, its two ends, match, first place, places, first chance, chances
DRAFT = Struct("=11i")


def address(values: array[Any]) -> int:
    """Return where an array lies."""
    return values.buffer_info()[0]


def integers(start: int | None, count: int, first: int = 0) -> list[int]:
    """Return `count` integers from the `first` on of those that lie at an address."""
    return memoryview(ctypes.string_at(start + 4 * first, 4 * count)).cast("i").tolist() if start and count else []


def reals(start: int | None, count: int, first: int = 0) -> list[float]:
    """Return the same of real numbers."""
    return array("d", ctypes.string_at(start + 8 * first, 8 * count)).tolist() if start and count else []


def rows(kind: Struct, start: int | None, count: int, first: int = 0) -> list[tuple[int, ...]]:
    """Return the same of structures."""
    if not start or not count:
        return []
    return list(kind.iter_unpack(ctypes.string_at(start + kind.size * first, kind.size * count)))
