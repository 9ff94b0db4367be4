"""Load the compiled loop; where no prebuilt one fits it is compiled in the background, and loaded at the next start."""

import ctypes
from ctypes import c_double, c_int, c_void_p
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from chemspec.decode.compiled.constants import MODULES, compiler_flags
from chemspec.system import compile_later, compiled

SOURCE = Path(__file__).with_name("loop.cpp")
CONSTANTS = {name: getattr(import_module(module), name) for module, names in MODULES.items() for name in names.split()}
FLAGS = compiler_flags(CONSTANTS)


@lru_cache(maxsize=1)
def loop_library() -> ctypes.CDLL | None:
    """Return the compiled loop; None where it is not there yet or cannot be compiled: the loop in Python does then."""
    loaded = compile_later.load_or_schedule(SOURCE, FLAGS, __name__)
    if loaded is None:
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


def compile_loop() -> ctypes.CDLL:
    """Return the loop compiled for this machine, now unless it is cached; raises NoKernelError if that fails."""
    return compiled.load_library(SOURCE, *FLAGS)


if __name__ == "__main__":  # run by `compile_later`
    compile_later.lower_priority()
    compile_loop()
