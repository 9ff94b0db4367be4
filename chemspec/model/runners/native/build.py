"""Load the CPU kernel: a prebuilt one, or one compiled for this machine, in the background if that takes long.

A kernel for the matrix unit of a processor (AMX) is compiled here only, after the first answers, and is used from the
next start on. Its fp32 log-probs differ from those of the others in the seventh digit.
"""

import ctypes
import platform
from pathlib import Path

from chemspec.system import compile_later, compiled, prebuilt

SOURCE = Path(__file__).with_name("kernel.cpp")
# Multiply-adds are fused only where the source says so, so that results do not depend on the compiler.
PORTABLE_FLAGS = ("-ffp-contract=off", "-fno-math-errno", "-pthread")
# Clang for ARM knows -march=native in recent versions only.
FLAGS = ("-mcpu=native" if platform.machine().lower() in ("arm64", "aarch64") else "-march=native", *PORTABLE_FLAGS)
SUITABLE, MATRIX_UNIT = 1, 2  # bits of `chemspec_processor`


def load_kernel() -> ctypes.CDLL:
    """Return the kernel; raises NoKernelError if it is not available now, see `compiled.load_library`."""
    library = load_prebuilt_kernel()
    if library is None:
        if compiled.may_wait() or compiled.is_cached(SOURCE, *FLAGS):
            return compile_kernel()
        compile_later.schedule(__name__)
        raise compiled.NoKernelError("it is compiled in the background, for the next start on")
    if library.chemspec_processor() & MATRIX_UNIT:
        if compiled.is_cached(SOURCE, *FLAGS):
            return compile_kernel()
        compile_later.schedule(__name__)
    return library


def compile_kernel() -> ctypes.CDLL:
    """Return the kernel compiled for this machine, now unless it is cached; raises NoKernelError if that fails."""
    return compiled.load_library(SOURCE, *FLAGS)


def load_prebuilt_kernel() -> ctypes.CDLL | None:
    """Load the shipped kernel that suits this processor, if there is one."""
    return prebuilt.load(SOURCE, PORTABLE_FLAGS, suits=lambda library: bool(library.chemspec_processor() & SUITABLE))


if __name__ == "__main__":  # by `compile_later`
    compile_later.lower_priority()
    compile_kernel()
