"""Kinds of processors that the compiled kernel is tested for, as far as the one at hand can run them."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

import pytest

from chemspec.model.runners.native import build, runner
from chemspec.system import compiled
from helpers.paths import TESTS

EMULATED = "matrix unit, emulated"
# How the kernel is compiled for a kind of them, and what a processor must have to run it.
KINDS = {
    "x86-64": (("-march=x86-64",), {"sse2"}),
    "x86-64-v3": (("-march=x86-64-v3",), {"avx2", "fma", "f16c"}),
    "x86-64-v3 -mavxvnni": (("-march=x86-64-v3", "-mavxvnni"), {"avx2", "fma", "f16c", "avx_vnni"}),
    "x86-64-v4": (("-march=x86-64-v4",), {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd"}),
    EMULATED: (
        ("-march=native", "-include", str(TESTS / "model" / "tiles_emulated.h")),
        {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"},  # bfloat16 besides: avx512_bf16
    ),
}
SOME_KINDS = [
    kind if kind in ("x86-64-v3", EMULATED) else pytest.param(kind, marks=pytest.mark.nightly) for kind in KINDS
]  # two at every push, all every night


def runs_here(level: str) -> bool:
    """Whether this processor has the instructions of a prebuilt kernel (`chemspec/system/prebuilt.py`)."""
    info = Path("/proc/cpuinfo")
    flags = re.search(r"^(flags|Features)\s*:(.*)$", info.read_text() if info.exists() else "", re.MULTILINE)
    has = set(flags[2].split()) if flags else set()
    v3 = {"avx2", "fma", "f16c", "bmi1", "bmi2", "movbe"}
    v4 = v3 | {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd", "avx512_vnni"}
    return {"v4": v4, "v3": v3, "dotprod": {"asimddp"}}.get(level, set()) <= has


def compiled_for(kind: str, folders: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """The kernel as it is on another kind of processor, as far as this one can run it; backends take it.

    It is compiled once for all tests, which takes seconds, also in several processes.
    """
    info = Path("/proc/cpuinfo")
    flags = re.search(r"^flags\s*:(.*)$", info.read_text() if info.exists() else "", re.MULTILINE)
    options, needs = KINDS[kind]
    if flags is None or not needs <= set(flags[1].split()):
        pytest.skip(f"this processor does not run {kind}")
    folder = folders.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    monkeypatch.setenv("CHEMSPEC_CACHE", str(folder / "kernels"))
    library = compiled.load_library(build.SOURCE, *options, *build.FLAGS[1:])
    monkeypatch.setattr(runner, "load_kernel", lambda: library)
    return library
