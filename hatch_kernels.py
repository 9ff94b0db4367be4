"""Compile kernel, decoding loop and atom maps into assets/kernels, for packaging (chemspec/system/prebuilt.py).

`hatch_build.py` calls this when chemspec is installed from a folder or packed: it compiles for the system at hand, with
the system's C++ compiler or, where there is none, with the package ziglang, which the build then requires. Without
either nothing is compiled, and the app and the command line say what to do. `python hatch_kernels.py --all` (with
ziglang) compiles for all systems: what a wheel for everybody carries (`.ci/wheel`). CHEMSPEC_NO_KERNELS=1 skips it.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from chemspec.decode.compiled import constants  # noqa: E402
from chemspec.model.runners.native import build as native  # noqa: E402
from chemspec.system import compiled, prebuilt  # noqa: E402

FOLDER = ROOT / "assets" / "kernels"
LOOP = ROOT / "chemspec" / "decode" / "compiled" / "loop.cpp"
ATOM_MAPS = ROOT / "chemspec" / "chem" / "reactions" / "atom_maps.cpp"
SECONDS = 3600


class Library(NamedTuple):
    """A library to compile."""

    source: Path
    flags: tuple[str, ...]  # that do not depend on the processor
    target: prebuilt.Target
    level: str

    @property
    def path(self) -> Path:
        """Where it belongs."""
        return FOLDER / prebuilt.library_name(self.source, self.flags, self.target.system, self.level)


def all_libraries() -> Iterator[Library]:
    """Yield every library of a wheel for everybody: of a system loop and atom maps, and the kernel for each level."""
    loop_flags, systems = constants.compiler_flags(read_constants()), set()
    for target in prebuilt.TARGETS:
        if target.system not in systems:
            systems.add(target.system)
            base = target._replace(zig_processor="baseline", flags=())
            yield Library(LOOP, loop_flags, base, prebuilt.BASELINE)
            yield Library(ATOM_MAPS, (), base, prebuilt.BASELINE)
        yield Library(native.SOURCE, native.PORTABLE_FLAGS, target, target.level)


def read_constants() -> dict[str, Any]:
    """Return the constants of the compiled loop, read from the sources: a build lacks what the modules import."""
    values: dict[str, Any] = {}
    for module, names in constants.MODULES.items():
        tree = ast.parse((ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
        assigned: dict[str, ast.expr] = {}
        for node in tree.body:
            if isinstance(node, ast.Assign):
                target, value = node.targets[0], node.value
                pairs = [(target, value)]
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    pairs = list(zip(target.elts, value.elts, strict=True))
                assigned |= {name.id: part for name, part in pairs if isinstance(name, ast.Name)}
        values |= {name: ast.literal_eval(assigned[name]) for name in names.split()}
    return values


def for_this_machine() -> list[Library]:
    """Return the libraries of the system at hand; of x86-64 the level of this processor and the one below it."""
    libraries = [library for library in all_libraries() if library.target.system == prebuilt.this_system()]
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return libraries
    has = set(flags[1].split()) if flags else set()
    skipped = {"v2"} if {"avx2", "fma"} <= has else {"v3"}
    return [each for each in libraries if each.level not in (skipped if "avx512_vnni" in has else skipped | {"v4"})]


def can_compile() -> bool:
    """Return whether a C++ compiler is at hand."""
    return compiled.has_compiler()


def are_there() -> bool:
    """Return whether the libraries for this machine have been compiled, from the sources as they are now."""
    return all(library.path.is_file() for library in for_this_machine())


def build(libraries: Iterable[Library], *, zig: bool = False) -> str:
    """Compile the missing ones of some libraries; returns an empty text, or in one line why there are none."""
    if os.environ.get("CHEMSPEC_NO_KERNELS", "") not in ("", "0"):
        return "CHEMSPEC_NO_KERNELS was set when chemspec was installed"
    selected = list(libraries)
    if not selected:
        return f"no kernel is written for {prebuilt.this_system()}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    current = {library.path.name for library in all_libraries()}
    for old in FOLDER.glob("*.so"):
        if old.name not in current:
            old.unlink()
    try:
        compiler = [sys.executable, "-m", "ziglang", "c++"] if zig else compiled._compiler()
        missing = [library for library in selected if not library.path.is_file()]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(lambda library: compile_library(library, compiler), missing))
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or [str(error)]
        return f"a kernel could not be compiled: {next((line for line in lines if 'error' in line), lines[0])[:300]}"
    except (compiled.NoKernelError, OSError, subprocess.SubprocessError) as error:
        return str(error)
    return ""


# A C++ library names the type of an uncaught exception in words with this: half of a small library.
NO_DEMANGLER = 'extern "C" char* __cxa_demangle(const char*, char*, __SIZE_TYPE__*, int*) { return nullptr; }'


def compile_library(library: Library, compiler: list[str]) -> None:
    """Compile a library; ziglang compiles its C++ library once a system, without the processor's instructions."""
    with tempfile.TemporaryDirectory(prefix="chemspec-kernels-") as folder:
        made = Path(folder, "library.so")
        general = ["-std=c++17", "-O2", *library.flags]
        if compiler[0] == sys.executable:
            _compile_with_zig(library, [*compiler, "-target", library.target.zig], general, made)
        else:
            _run([*compiler, *general, "-fPIC", "-shared", *library.target.flags, str(library.source), "-o", str(made)])
        check(made.read_bytes(), library)
        final = library.path.with_suffix(".partial")
        shutil.copyfile(made, final)
        final.replace(library.path)


def _compile_with_zig(library: Library, compiler: list[str], general: list[str], made: Path) -> None:
    """Compile a library that needs nothing but its system, and has none of what it does not use."""
    compiled_part = made.with_name("library.o")
    stub, exported = made.with_name("stub.cpp"), made.with_name("exported.def")
    stub.write_text(NO_DEMANGLER)
    sections = ["-ffunction-sections", "-fdata-sections"]
    position = [] if "windows" in library.target.zig else ["-fPIC"]
    processor = f"-mcpu={library.target.zig_processor}"
    _run([*compiler, processor, *general, *position, *sections, "-c", str(library.source), "-o", str(compiled_part)])
    only = []  # the names of the C++ library inside stay there
    if "linux" in library.target.zig:
        exported.write_text("{ global: chemspec_*; local: *; };")
        only = [f"-Wl,--version-script={exported}", "-Wl,--gc-sections"]
    elif "windows" in library.target.zig:
        exported.write_text("\n".join(["EXPORTS", *functions(library.source)]))
        only = [str(exported), "-Wl,--gc-sections"]
    _run([*compiler, "-shared", "-s", *only, str(compiled_part), str(stub), "-o", str(made)])


def functions(source: Path) -> list[str]:
    """Return the names of the functions that a source and the files that it includes export."""
    text = b"\n".join(prebuilt.source_texts(source)).decode()
    return re.findall(r"^(?:[\w:]+\*? )+\*?(chemspec_\w+)\(", text, re.MULTILINE)


FORMATS = {  # first bytes, where the processor is told, and by which bytes
    "linux-x86_64": (b"\x7fELF\x02", 18, b"\x3e\x00"),
    "linux-aarch64": (b"\x7fELF\x02", 18, b"\xb7\x00"),
    "macos-aarch64": (b"\xcf\xfa\xed\xfe", 4, b"\x0c\x00\x00\x01"),
    "macos-x86_64": (b"\xcf\xfa\xed\xfe", 4, b"\x07\x00\x00\x01"),
    "windows-x86_64": (b"MZ", -1, b"PE\x00\x00\x64\x86"),
}


def check(content: bytes, library: Library) -> None:
    """Raise OSError unless a compiled library is of its system and processor, and has the functions of its source."""
    magic, at, processor = FORMATS[library.target.system]
    there = content.find(processor) >= 0 if at < 0 else content[at : at + len(processor)] == processor
    declared = functions(library.source)
    missing = [name for name in declared if name.encode() not in content]
    signed = library.target.system != "macos-aarch64" or b"\xfa\xde\x0c\xc0" in content
    if not (content.startswith(magic) and there and declared and not missing and signed):
        raise OSError(f"{library.path.name} is not what was to be compiled: it lacks {missing or 'its format'}")


def _run(command: list[str]) -> None:
    subprocess.run(command, capture_output=True, check=True, timeout=SECONDS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="for all systems, with ziglang")
    given = parser.parse_args()
    reason = build(all_libraries() if given.all else for_this_machine(), zig=given.all)
    print(reason or f"{len(list(FOLDER.glob('*.so')))} libraries in {FOLDER}")
    sys.exit(bool(reason))
