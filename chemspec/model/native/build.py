"""Compile the kernel for this machine, once; the result is cached by source, compiler and processor."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from chemspec.cache import cache_dir

SOURCE = Path(__file__).with_name("kernel.cpp")
# Contraction to fused multiply-adds is the same in every variant of a loop, so rows stay independent of each other.
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC", "-pthread")  # fmt: skip
SECONDS = 120  # a compilation takes about three


class NoKernel(RuntimeError):
    """The kernel cannot be had here; the message says why."""


@lru_cache(maxsize=1)
def kernel() -> ctypes.CDLL:
    """The compiled kernel, loaded.

    Raises:
        NoKernel: without a compiler, on an unsupported system, or if CHEMSPEC_NATIVE is 0.
    """
    if os.environ.get("CHEMSPEC_NATIVE") == "0":
        raise NoKernel("switched off by CHEMSPEC_NATIVE=0")
    if sys.platform not in ("linux", "darwin"):
        raise NoKernel(f"not written for {sys.platform}")
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        raise NoKernel("there is no C++ compiler (c++, g++ or clang++) on the path")
    path = cache_dir() / f"kernel-{_key(compiler)}.so"
    try:
        if not _ours(path):
            _compile(compiler, path)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", b"") or b""
        lines = detail.decode(errors="replace").strip().splitlines()
        raise NoKernel(f"it could not be compiled: {lines[0] if lines else error}") from error


def _key(compiler: str) -> str:
    """Changes with everything that the compiled code depends on: it must not run on another kind of processor."""
    version = subprocess.run([compiler, "--version"], capture_output=True, timeout=20).stdout
    parts = (SOURCE.read_bytes(), " ".join(FLAGS).encode(), version, _processor().encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _processor() -> str:
    """What tells kinds of processors apart; `-march=native` compiles for one of them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.version()}"
    wanted = ("vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU part")
    lines = (line for line in text.split("\n\n")[0].splitlines())
    return platform.machine() + "".join(line for line in lines if line.split("\t")[0] in wanted)


def _ours(path: Path) -> bool:
    """Whether the file is there and nobody else could have put it there: it is about to be run."""
    if not path.is_file():
        return False
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _compile(compiler: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.so")
    command = [compiler, *FLAGS, str(SOURCE), "-o", str(partial)]
    try:
        subprocess.run(command, capture_output=True, check=True, timeout=SECONDS)
        partial.chmod(0o755)
        partial.replace(path)  # whole or not at all, also with several processes at once
    finally:
        partial.unlink(missing_ok=True)
