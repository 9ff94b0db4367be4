"""The kernel, compiled for this machine at first use."""

from __future__ import annotations

import ctypes
from pathlib import Path

from chemspec.system import compiled

SOURCE = Path(__file__).with_name("kernel.cpp")
# Contraction to fused multiply-adds is the same in every variant of a loop, so rows stay independent of each other.
FLAGS = ("-march=native", "-ffp-contract=fast", "-fno-math-errno", "-pthread")


def kernel() -> ctypes.CDLL:
    """The compiled kernel, loaded.

    Raises:
        NoKernelError: where it cannot be had, see `compiled.load`.
    """
    return compiled.load(SOURCE, *FLAGS)
