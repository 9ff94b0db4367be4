"""Whether there is a C++ compiler. Where there is one, code that does not compile fails tests and skips none."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

COMPILER = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
# The code is written for Linux and macOS, and CHEMSPEC_NATIVE=0 switches it off.
COMPILES = COMPILER is not None and sys.platform in ("linux", "darwin") and os.environ.get("CHEMSPEC_NATIVE") != "0"
REASON = "no C++ compiler (c++, g++ or clang++) here"
needs_compiler = pytest.mark.skipif(not COMPILES, reason=REASON)


def skip_without_compiler() -> None:
    """Skip the test that calls this, where there is no compiler."""
    if not COMPILES:
        pytest.skip(REASON)
