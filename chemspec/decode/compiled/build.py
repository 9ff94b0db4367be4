"""Build and load the compiled loop at first use."""

import ctypes
from ctypes import c_double, c_int, c_void_p
from functools import lru_cache
from pathlib import Path

from chemspec.decode import planner
from chemspec.decode.beam import GUESS_COST
from chemspec.draft.copy import MAX_MATCH, MAX_SKIP
from chemspec.draft.tree.builder import MIN_CHANCE, PROBES
from chemspec.draft.tree.edit_ngrams import COPY, EDGES
from chemspec.system import compiled
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import DRAFTED, REQUESTED

SOURCE = Path(__file__).with_name("loop.cpp")
PLANNER = """
NODES PASS_SECONDS NODE_SECONDS DRAFT_SECONDS MIN_GAIN STILL_RIGHT DEEPER MIN_WORTH START_SHARE PATIENCE
MIN_LEVEL_CHANCE EXPECTED PRIOR_PASSES PRIOR_SHARE MEMORY LOSS LONGEST_PAUSE
"""
CONSTANTS = {
    "MAX_MATCH": MAX_MATCH,
    "MAX_SKIP": MAX_SKIP,
    "PROBES": ",".join(map(str, PROBES)),
    "EDGES": ",".join(map(repr, EDGES)),
    "COPY": COPY,
    "PAD": PAD,
    "EOS": EOS,
    "BOS": BOS,
    "REQUESTED": REQUESTED,
    "DRAFTED": DRAFTED,
    "GUESS_COST": GUESS_COST,
    "MIN_CHANCE": MIN_CHANCE,
    "CERTAIN": ",".join(map(str, planner.CERTAIN)),
    **{name: getattr(planner, name) for name in PLANNER.split()},
}
# Fused multiply-adds round differently from Python.
FLAGS = ("-ffp-contract=off", "-pthread", *(f"-D{name}={value}" for name, value in CONSTANTS.items()))


@lru_cache(maxsize=1)
def loop_library() -> ctypes.CDLL | None:
    """Return the compiled loop, or None if it cannot be compiled or loaded."""
    try:
        loaded = compiled.load_library(SOURCE, *FLAGS)
    except compiled.NoKernelError:
        return None
    pointer = c_void_p
    loaded.chemspec_loop.restype = loaded.chemspec_loop_state.restype = loaded.chemspec_loop_kept.restype = pointer
    loaded.chemspec_loop_join.argtypes = (pointer, c_int, pointer, pointer, pointer)
    loaded.chemspec_loop_add_draft.argtypes = (
        *(pointer, c_int, c_int, pointer, c_int, c_int, c_int, c_int, c_int),
        *(pointer, c_int, pointer, c_int),
    )
    loaded.chemspec_loop_draft.argtypes = (pointer,)
    loaded.chemspec_loop_take.argtypes = (pointer, pointer, pointer, c_int, c_int)
    loaded.chemspec_loop_run.argtypes = (pointer, pointer, pointer, c_int, c_double)
    loaded.chemspec_loop_answer.argtypes = (pointer, c_int, c_int, pointer, pointer)
    return loaded
