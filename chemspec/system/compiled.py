"""Compile C++ for this machine, once; the result is cached by source, compiler and processor."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from chemspec.system.cache import cache_dir

FLAGS = ("-std=c++17", "-O3", "-shared", "-fPIC")
SECONDS = 120  # a compilation takes about three


class NoKernelError(RuntimeError):
    """Compiled code cannot be had here; the message says why."""


@lru_cache(maxsize=8)
def load(source: Path, *flags: str) -> ctypes.CDLL:
    """Compile a source, if it has not been, and load the library.

    Raises:
        NoKernelError: without a compiler, on an unsupported system, or if CHEMSPEC_NATIVE is 0.
    """
    if os.environ.get("CHEMSPEC_NATIVE") == "0":
        raise NoKernelError("switched off by CHEMSPEC_NATIVE=0")
    if sys.platform not in ("linux", "darwin"):
        raise NoKernelError(f"not written for {sys.platform}")
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        raise NoKernelError("there is no C++ compiler (c++, g++ or clang++) on the path")
    command = [compiler, *FLAGS, *flags, str(source)]
    path = cache_dir() / f"{source.stem}-{_key(source, command)}.so"
    try:
        if not _ours(path):
            build(command, path)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", b"") or b""
        lines = detail.decode(errors="replace").strip().splitlines()
        raise NoKernelError(f"it could not be compiled: {lines[0] if lines else error}") from error


def build(command: list[str], path: Path) -> None:
    """Run a compiler's command, whose output becomes `path`, whole or not at all, also with several processes at once.

    Raises:
        OSError, subprocess.SubprocessError: if that fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.so")
    try:
        subprocess.run([*command, "-o", str(partial)], capture_output=True, check=True, timeout=SECONDS)
        partial.chmod(0o755)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _key(source: Path, command: list[str]) -> str:
    """Return a digest of all that compiled code depends on: it must not run on another kind of processor."""
    version = subprocess.run([command[0], "--version"], capture_output=True, timeout=20).stdout
    parts = (*_texts(source), " ".join(command[1:-1]).encode(), version, _processor().encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _texts(source: Path) -> list[bytes]:
    """Return the text of a source and of the files beside it that it includes."""
    text = source.read_bytes()
    included = [source.parent / name.decode() for name in re.findall(rb'^#include "(.+)"', text, re.MULTILINE)]
    return [text, *(part for one in included for part in _texts(one))]


def _processor() -> str:
    """Return what tells kinds of processors apart; `-march=native` compiles for one of them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.version()}"
    wanted = ("vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU part")
    lines = (line for line in text.split("\n\n")[0].splitlines())
    return platform.machine() + "".join(line for line in lines if line.split("\t")[0] in wanted)


def _ours(path: Path) -> bool:
    """Return whether the file is there and nobody else could have put it there: it is about to be run."""
    if not path.is_file():
        return False
    status = path.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022
