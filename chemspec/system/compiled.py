"""Compile C++ for this machine, cached by source, compiler and processor.

Libraries are executed, so they lie in a folder with access for its user only, under a name with the digest of their
content; damaged or changed files are rebuilt. The compiler is the system's or, where it has none and on Windows, that
of the package ziglang (extra `compiler`).
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR

from chemspec.system import extras
from chemspec.system.cache import make_cache_folder
from chemspec.system.locks import LockedError, lock_file
from chemspec.system.prebuilt import source_texts

WINDOWS = sys.platform == "win32"
# -O3 gives the same speed (assets/docs/log.md) and compiles the kernel in 2.6 times the time.
FLAGS = ("-std=c++17", "-O2", "-shared", *(() if WINDOWS else ("-fPIC",)))
ZIG = [sys.executable, "-m", "ziglang", "c++"]
COMPILE_SECONDS = 600  # it takes about three seconds, but ziglang's first compilation builds the C++ library


class NoKernelError(RuntimeError):
    """Compiled code is not available; the message says why."""


@lru_cache(maxsize=8)
def load_library(source: Path, *flags: str) -> ctypes.CDLL:
    """Compile a source unless it is cached, and load the library.

    Raises:
        NoKernelError: on an unsupported system, if CHEMSPEC_NATIVE is 0, or without a compiler.
    """
    if os.environ.get("CHEMSPEC_NATIVE") == "0":
        raise NoKernelError("switched off by CHEMSPEC_NATIVE=0")
    if sys.platform not in ("linux", "darwin", "win32"):
        raise NoKernelError(f"not written for {sys.platform}")
    try:
        return ctypes.CDLL(str(_build_library(source, flags)))
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", b"") or b""
        lines = detail.decode(errors="replace").strip().splitlines()
        raise NoKernelError(f"it could not be compiled: {lines[0] if lines else error}") from error


def is_cached(source: Path, *flags: str) -> bool:
    """Return whether `load_library` would find a source compiled."""
    try:
        return _find_cached(source, _command(source, flags))[0] is not None
    except (NoKernelError, OSError):
        return False


def has_compiler() -> bool:
    """Return whether something can be compiled here."""
    try:
        return bool(_compiler())
    except NoKernelError:
        return False


def may_wait() -> bool:
    """Return whether the user waits for a compilation: not for ziglang, which compiles its C++ library first.

    CHEMSPEC_NATIVE=compile asks for compiled code in any case; with 0 nothing is compiled.
    """
    return os.environ.get("CHEMSPEC_NATIVE") in ("0", "compile") or _compiler() != ZIG


def _command(source: Path, flags: Sequence[str]) -> list[str]:
    extra = os.environ.get("CHEMSPEC_CXXFLAGS", "").split()  # sanitizers, see .ci/sanitize
    return [*_compiler(), *FLAGS, *flags, *extra, str(source)]


def _find_cached(source: Path, command: list[str]) -> tuple[Path | None, Path, str]:
    """Return the cached library of a source if there is one, its folder, and the first part of its name."""
    folder, name = library_folder(), f"{source.stem}-{_compilation_key(source, command)}"
    return next(filter(_is_undamaged, sorted(folder.glob(f"{name}-*.so"))), None), folder, name


def _build_library(source: Path, flags: Sequence[str]) -> Path:
    """Return the compiled library of a source, from the cache if it is there; atomic, also for concurrent processes."""
    command = _command(source, flags)
    library, folder, name = _find_cached(source, command)
    if library:
        return library
    with _hold_compiler(folder / f"{name}.lock"):
        return _find_cached(source, command)[0] or _compile(command, folder, name)


@contextmanager
def _hold_compiler(path: Path) -> Iterator[None]:
    """Wait for another process that compiles the same source, so that a compiler runs once for all of them."""
    end = time.monotonic() + COMPILE_SECONDS
    with ExitStack() as stack:
        while time.monotonic() < end:
            try:
                stack.enter_context(lock_file(path))
                stack.callback(_remove, path)
                break
            except LockedError:
                time.sleep(0.1)
        yield


def _remove(path: Path) -> None:
    with suppress(OSError):  # Windows removes no open file
        path.unlink()


def _compile(command: Sequence[str], folder: Path, name: str) -> Path:
    with tempfile.TemporaryDirectory(prefix=name, dir=folder, ignore_cleanup_errors=True) as build_folder:
        partial = Path(build_folder, "library.so")  # Windows compilers add debugging files to its folder
        subprocess.run([*command, "-o", str(partial)], capture_output=True, check=True, timeout=COMPILE_SECONDS)
        path = folder / f"{name}-{_hex_digest(partial.read_bytes())}.so"
        if not path.exists():  # made by another process meanwhile; on Windows a loaded one cannot be replaced
            partial.replace(path)
    return path


def _compiler() -> list[str]:
    """Return the command of the compiler.

    On Windows it is always ziglang's: GCC's libraries need files on the path there and misalign wide vectors.
    """
    compiler = None if WINDOWS else next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is not None:
        return [compiler]
    if extras.is_installed("ziglang"):
        return ZIG
    raise NoKernelError("there is no C++ compiler (c++, g++ or clang++) on the path, nor the package ziglang")


def library_folder() -> Path:
    """Return the folder of compiled libraries, created if missing; only its owner may write to it.

    Raises:
        OSError: if it cannot be created, or others may write to it.
    """
    path = make_cache_folder() / "compiled"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()  # lstat: the status of a link itself
    shared = not WINDOWS and (status.st_uid != os.getuid() or status.st_mode & 0o022)
    if not S_ISDIR(status.st_mode) or shared:
        raise OSError(f"{path} is not a folder that only you can write to; remove it, or set CHEMSPEC_CACHE to another")
    return path


def _compilation_key(source: Path, command: list[str]) -> str:
    """Return a digest of everything that compiled code depends on, including the kind of processor."""
    parts = (
        *source_texts(source),
        " ".join(command[1:-1]).encode(),
        _compiler_version(*_compiler()),
        _processor_identity().encode(),
    )
    return _hex_digest(b"\0".join(parts))[:24]


@lru_cache(maxsize=4)
def _compiler_version(*compiler: str) -> bytes:
    return subprocess.run([*compiler, "--version"], capture_output=True, timeout=20).stdout


@lru_cache(maxsize=1)
def _processor_identity() -> str:
    """Return a text that identifies the kind of processor, for which `-march=native` compiles."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.version()}"
    keys = ("vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU part")
    lines = (line for line in text.split("\n\n")[0].splitlines())
    return platform.machine() + "".join(line for line in lines if line.split("\t")[0] in keys)


def _is_undamaged(path: Path) -> bool:
    """Return whether a library's content matches the digest in its name; removes it otherwise."""
    # Another process has found it damaged, too, or, on Windows, has loaded it.
    with suppress(FileNotFoundError, PermissionError):
        if _hex_digest(path.read_bytes()) == path.stem.rpartition("-")[2]:
            return True
        path.unlink()
    return False


def _hex_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
