"""The kernel, compiled for this machine at first use."""

from __future__ import annotations

import ctypes
from pathlib import Path

from chemspec.system import compiled

SOURCE = Path(__file__).with_name("kernel.cpp")
# Multiply-adds are fused only where the source says so, lest a compiler decide what the bits are.
FLAGS = ("-march=native", "-ffp-contract=off", "-fno-math-errno", "-pthread")


def kernel() -> ctypes.CDLL:
    """The compiled kernel, loaded.

    Raises:
        NoKernelError: where it cannot be had, see `compiled.load`.
    """
    return compiled.load(SOURCE, *FLAGS)
