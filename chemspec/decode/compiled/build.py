"""Build and load the compiled loop at first use."""

import ctypes
from ctypes import c_double, c_int, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import Any

import chemspec.tokenizer as tokenizer
import chemspec.types as types
from chemspec.decode import beam, draft_history, draft_planner
from chemspec.draft import copy, mixed
from chemspec.draft.tree import edit_ngrams
from chemspec.system import compiled

SOURCE = Path(__file__).with_name("loop.cpp")
PLANNER_CONSTANTS = """
PASS_SECONDS NODE_SECONDS PLANNING_SECONDS MIN_GAIN NEGLIGIBLE FREE_COST MIN_WORTH PRIOR_NODES EMA_DECAY
CLASS_WEIGHT POOLED_WEIGHT MAX_RATE KNOWN_RATE MAX_LOSS PAUSE_GROWTH LONGEST_PAUSE
"""
MODULES = {
    draft_planner: PLANNER_CONSTANTS,
    draft_history: "POSITION_CLASS FIRST_PAUSE",
    beam: "GUESS_COST",
    copy: "MAX_MATCH MAX_SKIP",
    mixed: "MIN_PROBABILITY",
    edit_ngrams: "COPY EDGES",
    tokenizer: "BOS EOS PAD",
    types: "REQUESTED DRAFTED",
}
CONSTANTS = {name: getattr(module, name) for module, names in MODULES.items() for name in names.split()}


def _as_macro(value: Any) -> str:
    """Return a constant as C++ reads it: a number, or the numbers of a list with commas."""
    return ",".join(map(repr, value)) if isinstance(value, tuple) else repr(value)


# Fused multiply-adds round differently from Python.
FLAGS = ("-ffp-contract=off", "-pthread", *(f"-D{name}={_as_macro(value)}" for name, value in CONSTANTS.items()))


@lru_cache(maxsize=1)
def loop_library() -> ctypes.CDLL | None:
    """Return the compiled loop, or None if it cannot be compiled or loaded."""
    try:
        loaded = compiled.load_library(SOURCE, *FLAGS)
    except compiled.NoKernelError:
        return None
    pointer = c_void_p
    for function in (loaded.chemspec_loop, loaded.chemspec_loop_state, loaded.chemspec_loop_kept_slots):
        function.restype = pointer
    loaded.chemspec_loop_add_queries.argtypes = (pointer, c_int, pointer, pointer, pointer)
    loaded.chemspec_loop_add_draft.argtypes = (
        *(pointer, c_int, c_int, pointer, c_int, c_int, c_int, c_int, c_int),
        *(pointer, c_int, pointer, c_int),
    )
    loaded.chemspec_loop_history.argtypes = (pointer, pointer)
    loaded.chemspec_loop_draft.argtypes = (pointer,)
    loaded.chemspec_loop_store_scores.argtypes = (pointer, pointer, pointer, c_int, c_int)
    loaded.chemspec_loop_run.argtypes = (pointer, pointer, pointer, c_int, c_double)
    loaded.chemspec_loop_output_sequence.argtypes = (pointer, c_int, c_int, pointer, pointer)
    return loaded
