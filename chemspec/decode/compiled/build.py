"""Load the compiled loop, which is compiled at first use where no prebuilt one fits."""

import ctypes
from ctypes import c_double, c_int, c_void_p
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from chemspec.decode.compiled.constants import MODULES, compiler_flags
from chemspec.system import compiled, prebuilt

SOURCE = Path(__file__).with_name("loop.cpp")
CONSTANTS = {name: getattr(import_module(module), name) for module, names in MODULES.items() for name in names.split()}
FLAGS = compiler_flags(CONSTANTS)


@lru_cache(maxsize=1)
def loop_library() -> ctypes.CDLL | None:
    """Return the compiled loop, or None if it cannot be compiled or loaded."""
    loaded = prebuilt.load(SOURCE, FLAGS, suits=lambda _: True)
    if loaded is None:
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
