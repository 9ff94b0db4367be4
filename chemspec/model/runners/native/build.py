"""Compile the CPU kernel for this machine at first use."""

import ctypes
from pathlib import Path

from chemspec.system import compiled

SOURCE = Path(__file__).with_name("kernel.cpp")
# Multiply-adds are fused only where the source says so, so that results do not depend on the compiler.
FLAGS = ("-march=native", "-ffp-contract=off", "-fno-math-errno", "-pthread")


def load_kernel() -> ctypes.CDLL:
    """Return the compiled kernel; raises NoKernelError if it is not available, see `compiled.load_library`."""
    return compiled.load_library(SOURCE, *FLAGS)
