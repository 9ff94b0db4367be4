"""Compile C++ for this machine, once; the result is cached by source, compiler and processor.

A library is code that will be run, so it lies in a folder that its user alone can enter, under a name that holds the
digest of its content: what is torn, or was changed, does not have its name and is built again. A wheel may carry
libraries for a few kinds of processors (`hatch_build.py`); they serve where there is no compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR

from chemspec.system.cache import make_folder

FLAGS = ("-std=c++17", "-O3", "-shared", "-fPIC")
SECONDS = 120  # a compilation takes about three
PREBUILT = Path(__file__).parents[1] / "prebuilt"
# Kinds of processors that a wheel's libraries are for, the best first: compiler flags, and what Linux says they have.
KINDS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "x86-64-v4-vnni": (
        ("-march=x86-64-v4", "-mavx512vnni"),
        frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni", "avx2", "fma", "f16c")),
    ),
    "x86-64-v3": (("-march=x86-64-v3",), frozenset(("avx2", "fma", "f16c", "bmi1", "bmi2", "movbe"))),
    "x86-64": (("-march=x86-64",), frozenset(("sse2",))),
}


class NoKernelError(RuntimeError):
    """Compiled code cannot be had here; the message says why."""


@lru_cache(maxsize=8)
def load(source: Path, *flags: str) -> ctypes.CDLL:
    """Compile a source, if it has not been, and load the library.

    Raises:
        NoKernelError: on an unsupported system, if CHEMSPEC_NATIVE is 0, or where there is neither a compiler nor a
            library that came with the package.
    """
    if os.environ.get("CHEMSPEC_NATIVE") == "0":
        raise NoKernelError("switched off by CHEMSPEC_NATIVE=0")
    if sys.platform not in ("linux", "darwin"):
        raise NoKernelError(f"not written for {sys.platform}")
    try:
        return ctypes.CDLL(str(_built(source, flags)))
    except (OSError, subprocess.SubprocessError, NoKernelError) as error:
        if (ready := prebuilt(source, flags)) is not None:
            with suppress(OSError):  # made on a newer system than this one
                return ctypes.CDLL(str(ready))
        if isinstance(error, NoKernelError):
            raise
        detail = getattr(error, "stderr", b"") or b""
        lines = detail.decode(errors="replace").strip().splitlines()
        raise NoKernelError(f"it could not be compiled: {lines[0] if lines else error}") from error


def _built(source: Path, flags: Sequence[str]) -> Path:
    extra = os.environ.get("CHEMSPEC_CXXFLAGS", "").split()  # sanitizers, see .ci/sanitize
    command = _command(source, (*flags, *extra))
    name = f"{source.stem}-{_key(source, command)}"
    return next(filter(_whole, sorted(folder().glob(f"{name}-*.so"))), None) or build(command, folder() / name)


def _command(source: Path, flags: Sequence[str]) -> list[str]:
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        raise NoKernelError("there is no C++ compiler (c++, g++ or clang++) on the path")
    return [compiler, *FLAGS, *flags, str(source)]


def prebuilt(source: Path, flags: Sequence[str]) -> Path | None:
    """Return the library that came with the package for this source and the best kind of this processor, if any."""
    have = frozenset(word for line in _processor().splitlines() for word in line.split())
    names = _prebuilt_names(source, flags)
    files = (PREBUILT / names[kind] for kind, (_, needs) in KINDS.items() if needs <= have)
    return next((file for file in files if file.is_file()), None)


def prebuild(source: Path, flags: Sequence[str], out: Path) -> list[Path]:
    """Compile a source into `out` for all kinds of processors; what a wheel carries in `PREBUILT`.

    Raises:
        NoKernelError: without a compiler, or for another machine than those of `KINDS`.
        OSError, subprocess.SubprocessError: if it fails.
    """
    if platform.machine() != "x86_64" or sys.platform != "linux":
        raise NoKernelError(f"nothing is prebuilt for {sys.platform} on {platform.machine()}")
    made = []
    for kind, name in _prebuilt_names(source, flags).items():
        march, file = KINDS[kind][0], out / name
        command = _command(source, (*march, *_portable(flags)))
        subprocess.run([*command, "-o", str(file)], capture_output=True, check=True, timeout=SECONDS)
        made.append(file)
    return made


def _prebuilt_names(source: Path, flags: Sequence[str]) -> dict[str, str]:
    """Return by kind of processor a file name that another source, or other constants, do not have."""
    digest = _digest(b"\0".join((*_texts(source), " ".join(_portable(flags)).encode())))[:16]
    return {kind: f"{source.stem}-{kind}-{digest}.so" for kind in KINDS}


def _portable(flags: Sequence[str]) -> tuple[str, ...]:
    return tuple(flag for flag in flags if not flag.startswith("-march"))


def folder() -> Path:
    """Return the folder of libraries, made if need be: of this user, and nobody else may write to it.

    Raises:
        OSError: if it cannot be made, or is not such a folder.
    """
    path = make_folder() / "compiled"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()  # of a link, the link's own
    if not S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise OSError(f"{path} is not a folder that only you can write to; remove it, or set CHEMSPEC_CACHE to another")
    return path


def build(command: list[str], base: Path) -> Path:
    """Run a compiler's command and return its output, at `base`-DIGEST.so: whole, also with several processes at once.

    Raises:
        OSError, subprocess.SubprocessError: if that fails.
    """
    partial = base.with_name(f"{base.name}.{os.getpid()}.partial")
    try:
        subprocess.run([*command, "-o", str(partial)], capture_output=True, check=True, timeout=SECONDS)
        path = base.with_name(f"{base.name}-{_digest(partial.read_bytes())}.so")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _key(source: Path, command: list[str]) -> str:
    """Return a digest of all that compiled code depends on: it must not run on another kind of processor."""
    parts = (*_texts(source), " ".join(command[1:-1]).encode(), _version(command[0]), _processor().encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


@lru_cache(maxsize=4)
def _version(compiler: str) -> bytes:
    """Return what a compiler says of itself; asked once a process."""
    return subprocess.run([compiler, "--version"], capture_output=True, timeout=20).stdout


def _texts(source: Path) -> list[bytes]:
    """Return the text of a source and of the files beside it that it includes."""
    text = source.read_bytes()
    included = [source.parent / name.decode() for name in re.findall(rb'^#include "(.+)"', text, re.MULTILINE)]
    return [text, *(part for one in included for part in _texts(one))]


@lru_cache(maxsize=1)
def _processor() -> str:
    """Return what tells kinds of processors apart; `-march=native` compiles for one of them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.version()}"
    wanted = ("vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU part")
    lines = (line for line in text.split("\n\n")[0].splitlines())
    return platform.machine() + "".join(line for line in lines if line.split("\t")[0] in wanted)


def _whole(path: Path) -> bool:
    """Return whether a library's content is the one that its name promises; one whose is not is removed."""
    with suppress(FileNotFoundError):  # another process has found it damaged, too
        if _digest(path.read_bytes()) == path.stem.rpartition("-")[2]:
            return True
        path.unlink()
    return False


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
