"""Constants that the compiled loop shares with Python modules, given to the compiler as macros.

This module imports none of them, so that packaging can read them from the sources (`hatch_kernels.py`).
"""

from collections.abc import Mapping
from typing import Any

PLANNER_CONSTANTS = """
PASS_SECONDS NODE_SECONDS PLANNING_SECONDS RECORD_SECONDS MIN_GAIN NEGLIGIBLE FREE_COST MIN_WORTH PRIOR_NODES EMA_DECAY
CLASS_WEIGHT POOLED_WEIGHT MAX_RATE KNOWN_RATE MAX_LOSS PAUSE_GROWTH
LEARNING_RATE MAX_LEARNED LEARNING_PASSES
"""
MODULES = {
    "chemspec.decode.draft_planner": PLANNER_CONSTANTS,
    "chemspec.decode.draft_history": "POSITION_CLASS FIRST_PAUSE MAX_PAUSE MAX_IDLE",
    "chemspec.decode.beam": "GUESS_COST RANK_GAP FLOOR_GAP REPETITIONS",
    "chemspec.draft.copy": "MAX_MATCH MAX_SKIP",
    "chemspec.draft.mixed": "MIN_PROBABILITY",
    "chemspec.draft.tree.edit_ngrams": "COPY EDGES",
    "chemspec.tokenizer": "BOS EOS PAD",
}


def compiler_flags(constants: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the flags that the loop is compiled with."""
    # Fused multiply-adds round differently from Python.
    return ("-ffp-contract=off", "-pthread", *(f"-D{name}={_as_macro(value)}" for name, value in constants.items()))


def _as_macro(value: Any) -> str:
    """Return a constant as C++ reads it: a number, or the numbers of a list with commas."""
    return ",".join(map(repr, value)) if isinstance(value, tuple) else repr(value)
