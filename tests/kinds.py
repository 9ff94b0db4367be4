"""Kinds of processors that the compiled kernel is tested for, as far as the one at hand can run them."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from chemspec.model.runners.native import build, runner
from chemspec.system import compiled

# What a processor must have to run what is compiled for a kind of it (`-march`).
KINDS = {
    "x86-64": {"sse2"},
    "x86-64-v3": {"avx2", "fma", "f16c"},
    "x86-64-v3 -mavxvnni": {"avx2", "fma", "f16c", "avx_vnni"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd"},
}
SOME_KINDS = [
    kind if kind == "x86-64-v3" else pytest.param(kind, marks=pytest.mark.nightly) for kind in KINDS
]  # one at every push, all every night


def compiled_for(kind: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """The kernel as it is on another kind of processor, as far as this one can run it; backends take it."""
    info = Path("/proc/cpuinfo")
    flags = re.search(r"^flags\s*:(.*)$", info.read_text() if info.exists() else "", re.MULTILINE)
    if flags is None or not KINDS[kind] <= set(flags[1].split()):
        pytest.skip(f"this processor does not run {kind}")
    monkeypatch.setenv("CHEMSPEC_CACHE", str(cache))
    library = compiled.load(build.SOURCE, *f"-march={kind}".split(), *build.FLAGS[1:])
    monkeypatch.setattr(runner, "kernel", lambda: library)
    return library
