"""Libraries that were compiled when chemspec was packed or installed, for the systems and processors of `TARGETS`.

They lie in `assets/kernels`, which is part of a wheel and not of the repository (`hatch_kernels.py` makes them). A name
has a digest of source and flags: a library of other sources is never loaded. Libraries of one source are asked, best
first, whether this processor has their instructions.
"""

import ctypes
import hashlib
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from chemspec.asset_files import assets_folder

SYSTEMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}  # other names of processors


class Target(NamedTuple):
    """A system and a kind of processor that the kernel is compiled for."""

    system: str
    level: str  # instructions: a level of x86-64 (v4 with VNNI), dotprod, or base
    zig: str  # system in the words of zig
    zig_processor: str
    flags: tuple[str, ...]  # flags for GCC and Clang on such a system


V4, V3, V2 = ("-march=x86-64-v4", "-mavx512vnni"), ("-march=x86-64-v3",), ("-march=x86-64-v2",)
_X86 = (("v4", "x86_64_v4+avx512vnni", V4), ("v3", "x86_64_v3", V3), ("v2", "x86_64_v2", V2))
_ARM = (("dotprod", "generic+dotprod", ("-march=armv8.2-a+dotprod",)), ("base", "generic", ("-march=armv8-a",)))
# Of each system the best first. Macs with AVX-512 switch it on at its first use, which the check does not see.
TARGETS = (
    *(Target("linux-x86_64", name, "x86_64-linux-gnu.2.17", cpu, flags) for name, cpu, flags in _X86),
    *(Target("linux-aarch64", name, "aarch64-linux-gnu.2.17", cpu, flags) for name, cpu, flags in _ARM),
    Target("macos-aarch64", "dotprod", "aarch64-macos.11.0", "apple_m1", ("-mcpu=apple-m1",)),
    *(Target("macos-x86_64", name, "x86_64-macos.11.0", cpu, flags) for name, cpu, flags in _X86[1:]),
    *(Target("windows-x86_64", name, "x86_64-windows-gnu", cpu, flags) for name, cpu, flags in _X86),
)
BASELINE = "any"  # level of a library whose speed does not depend on instructions: loop and atom maps


def load(source: Path, flags: Sequence[str], *, suits: Callable[[ctypes.CDLL], bool]) -> ctypes.CDLL | None:
    """Return the best prebuilt library of a source that loads and suits this processor; None if there is none.

    CHEMSPEC_NATIVE=compile and CHEMSPEC_CXXFLAGS ask for libraries that are compiled here.
    """
    if os.environ.get("CHEMSPEC_NATIVE") in ("0", "compile") or os.environ.get("CHEMSPEC_CXXFLAGS"):
        return None
    for path in libraries(source, flags, this_system()):
        with suppress(OSError):  # it may be of another C library, as on Alpine
            library = ctypes.CDLL(str(path))
            if suits(library):
                return library
    return None


def libraries(source: Path, flags: Sequence[str], system: str) -> Iterator[Path]:
    """Yield the prebuilt libraries of a source for a system, the best first."""
    levels = (*(target.level for target in TARGETS if target.system == system), BASELINE)
    files = (kernels_folder() / library_name(source, flags, system, level) for level in levels)
    return filter(Path.is_file, files)


def kernels_folder() -> Path:
    """Return the folder of the prebuilt libraries, which may be missing."""
    return assets_folder() / "kernels"


def library_name(source: Path, flags: Sequence[str], system: str, level: str) -> str:
    """Return the name of a library; `flags` are those that do not depend on the processor."""
    content = b"\0".join([*source_texts(source), " ".join(flags).encode()]).replace(b"\r\n", b"\n")
    return f"{source.stem}-{system}-{level}-{hashlib.sha256(content).hexdigest()[:16]}.so"


def source_texts(source: Path) -> list[bytes]:
    """Return the texts of a source and of the files that it includes."""
    text = source.read_bytes()
    included = [source.parent / name.decode() for name in re.findall(rb'^#include "(.+)"', text, re.MULTILINE)]
    return [text, *(part for file in included for part in source_texts(file))]


def this_system() -> str:
    """Return system and processor of this machine, such as "linux-x86_64"."""
    machine = platform.machine().lower()
    return f"{SYSTEMS.get(sys.platform, sys.platform)}-{MACHINES.get(machine, machine)}"
