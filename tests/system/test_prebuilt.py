"""Kernels that a wheel carries: chosen by the processor, never of other sources, without a compiler, the same bits."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from helpers.compilers import needs_compiler
from helpers.kinds import runs_here
from helpers.paths import ROOT
from helpers.slowness import slowness

from chemspec.decode.compiled import build as loop
from chemspec.engine.registry import installed_models
from chemspec.model.runners.native import build
from chemspec.system import compile_later, compiled, prebuilt


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    """The program that compiles them."""
    sys.path.insert(0, str(ROOT))
    import hatch_kernels

    sys.path.remove(str(ROOT))
    return hatch_kernels


def test_packaging_reads_the_constants_that_the_modules_have(kernels: ModuleType) -> None:
    assert kernels.read_constants() == loop.CONSTANTS


def test_every_system_has_a_loop_atom_maps_and_kernels_with_names_of_their_own(kernels: ModuleType) -> None:
    libraries = list(kernels.all_libraries())
    assert len({library.path.name for library in libraries}) == len(libraries)
    systems = {target.system for target in prebuilt.TARGETS}
    assert systems == {"linux-x86_64", "linux-aarch64", "macos-aarch64", "macos-x86_64", "windows-x86_64"}
    for system in systems:
        levels = [library.level for library in libraries if library.target.system == system]
        assert levels.count(prebuilt.BASELINE) == 2 and len(levels) >= 3


@pytest.mark.parametrize(
    ("platform", "machine", "system"),
    [
        ("linux", "x86_64", "linux-x86_64"),
        ("linux", "aarch64", "linux-aarch64"),
        ("darwin", "arm64", "macos-aarch64"),
        ("darwin", "x86_64", "macos-x86_64"),
        ("win32", "AMD64", "windows-x86_64"),
        ("linux", "riscv64", "linux-riscv64"),
        ("freebsd14", "amd64", "freebsd14-x86_64"),
    ],
)
def test_systems_have_one_name_each(platform: str, machine: str, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert prebuilt.this_system() == system


# --- choice --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of prebuilt libraries, and no compiler."""
    monkeypatch.setattr(prebuilt, "kernels_folder", lambda: tmp_path / "kernels")
    monkeypatch.setattr(prebuilt, "this_system", lambda: "linux-x86_64")
    monkeypatch.delenv("CHEMSPEC_NATIVE", raising=False)
    monkeypatch.delenv("CHEMSPEC_CXXFLAGS", raising=False)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "small.cpp").write_text("int answer() { return 1; }")
    return tmp_path


def put(folder: Path, level: str, flags: tuple[str, ...] = ()) -> Path:
    path = folder / "kernels" / prebuilt.library_name(folder / "small.cpp", flags, "linux-x86_64", level)
    path.write_bytes(level.encode())
    return path


def pick(folder: Path, monkeypatch: pytest.MonkeyPatch, *, fit: set[str], damaged: set[str] = frozenset()) -> str:  # type: ignore[assignment]
    """The level that is chosen, where the processor has those that fit, and some libraries cannot be loaded."""

    def opened(path: str) -> Any:
        level = Path(path).read_text()
        if level in damaged:
            raise OSError("invalid ELF header")
        return SimpleNamespace(level=level)

    monkeypatch.setattr(ctypes, "CDLL", opened)
    chosen: Any = prebuilt.load(folder / "small.cpp", (), suits=lambda library: library.level in fit)
    return chosen.level if chosen else "none"


@pytest.mark.parametrize(
    ("there", "fit", "damaged", "chosen"),
    [
        ("v4 v3 v2", "v4 v3 v2", "", "v4"),
        ("v4 v3 v2", "v3 v2", "", "v3"),
        ("v4 v3 v2", "v2", "", "v2"),
        ("v4 v3 v2", "", "", "none"),
        ("v3 v2", "v4 v3 v2", "", "v3"),
        ("v4 v3 v2", "v4 v3 v2", "v4", "v3"),
        ("v4 v3 v2", "v4 v3 v2", "v4 v3 v2", "none"),
        ("any", "any", "", "any"),
        ("", "v4", "", "none"),
    ],
)
def test_the_best_that_loads_and_suits_is_chosen(
    there: str, fit: str, damaged: str, chosen: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for level in there.split():
        put(folder, level)
    assert pick(folder, monkeypatch, fit={*fit.split()}, damaged={*damaged.split()}) == chosen


def test_a_library_of_other_sources_or_flags_is_not_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "v3", ("-DANSWER=2",))
    assert pick(folder, monkeypatch, fit={"v3"}) == "none"
    put(folder, "v3")
    assert pick(folder, monkeypatch, fit={"v3"}) == "v3"
    (folder / "small.cpp").write_text("int answer() { return 2; }")
    assert pick(folder, monkeypatch, fit={"v3"}) == "none"
    (folder / "small.cpp").write_text('#include "part.h"\r\n')
    (folder / "part.h").write_text("int a;\r\n")
    put(folder, "v3")
    (folder / "small.cpp").write_text('#include "part.h"\n')
    (folder / "part.h").write_text("int a;\n")
    assert pick(folder, monkeypatch, fit={"v3"}) == "v3", "line ends of Windows do not matter"
    (folder / "part.h").write_text("int b;\n")
    assert pick(folder, monkeypatch, fit={"v3"}) == "none", "included files do"


@pytest.mark.parametrize("variable", ["CHEMSPEC_NATIVE=0", "CHEMSPEC_NATIVE=compile", "CHEMSPEC_CXXFLAGS=-g"])
def test_variables_switch_them_off(variable: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "v3")
    monkeypatch.setenv(*variable.split("=", 1))
    assert pick(folder, monkeypatch, fit={"v3"}) == "none"


# --- the matrix unit -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "cached", "kernel", "compiled_later"),
    [(1, False, "prebuilt", False), (3, False, "prebuilt", True), (3, True, "compiled here", False)],
)
def test_a_matrix_unit_gets_its_kernel_later(
    bits: int, cached: bool, kernel: str, compiled_later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled: list[str] = []
    library = SimpleNamespace(name="prebuilt", chemspec_processor=lambda: bits)
    monkeypatch.setattr(build, "load_prebuilt_kernel", lambda: library)
    monkeypatch.setattr(compiled, "is_cached", lambda *_: cached)
    monkeypatch.setattr(compiled, "load_library", lambda *_: SimpleNamespace(name="compiled here"))
    monkeypatch.setattr(compile_later, "schedule", scheduled.append)
    chosen: Any = build.load_kernel()
    assert chosen.name == kernel
    assert scheduled == ([build.__name__] if compiled_later else [])


# --- no prebuilt kernel fits ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compiler", "native", "cached", "kernel", "compiled_later"),
    [
        (["c++"], "", False, "compiled here", False),
        (["c++"], "", True, "compiled here", False),
        (compiled.ZIG, "", False, "none", True),
        (compiled.ZIG, "", True, "compiled here", False),
        (compiled.ZIG, "compile", False, "compiled here", False),
    ],
)
def test_nobody_waits_for_ziglang(
    compiler: list[str], native: str, cached: bool, kernel: str, compiled_later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled: list[str] = []
    monkeypatch.setenv("CHEMSPEC_NATIVE", native)
    monkeypatch.setattr(build, "load_prebuilt_kernel", lambda: None)
    monkeypatch.setattr(compiled, "_compiler", lambda: compiler)
    monkeypatch.setattr(compiled, "is_cached", lambda *_: cached)
    monkeypatch.setattr(compiled, "load_library", lambda *_: SimpleNamespace(name="compiled here"))
    monkeypatch.setattr(compile_later, "schedule", scheduled.append)
    if kernel == "none":
        with pytest.raises(compiled.NoKernelError, match="compiled in the background, for the next start on"):
            build.load_kernel()
    else:
        chosen: Any = build.load_kernel()
        assert chosen.name == kernel
    assert scheduled == ([build.__name__] if compiled_later else [])


@pytest.mark.parametrize(
    ("native", "cached", "there", "compiled_later"),
    [("", False, False, True), ("", True, True, False), ("compile", False, True, False), ("0", False, False, False)],
)
def test_the_loop_is_compiled_after_the_first_answer(
    native: str, cached: bool, there: bool, compiled_later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduled: list[str] = []
    monkeypatch.setenv("CHEMSPEC_NATIVE", native)
    monkeypatch.setattr(prebuilt, "load", lambda *_, **__: None)
    monkeypatch.setattr(compiled, "is_cached", lambda *_: cached)
    monkeypatch.setattr(compiled, "load_library", lambda *_: MagicMock())
    monkeypatch.setattr(compile_later, "schedule", scheduled.append)
    loop.loop_library.cache_clear()
    try:
        assert (loop.loop_library() is not None) == there
    finally:
        loop.loop_library.cache_clear()
    assert scheduled == ([loop.__name__] if compiled_later else [])


FIRST_ANSWER = """
import resource, sys
from pathlib import Path
from chemspec.cli.__main__ import main
from chemspec.system import compile_later, prebuilt
prebuilt.kernels_folder = lambda: Path("nowhere")
compile_later.schedule = lambda module: None  # a process that outlives this one
sys.argv = ["chemspec", "predict", "O=C(NCc1ccccc1)c1ccccc1", "--task", "retro", "-n", "3"]
try:
    main()
finally:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(sum(one.ru_utime + one.ru_stime for one in used), file=sys.stderr)
"""


@needs_compiler
@pytest.mark.slow  # compiles the kernel
@pytest.mark.skipif(not installed_models(), reason="no model in assets/models")
@pytest.mark.parametrize(
    ("native", "path"), [("", True), ("0", True), ("prebuilt", False)], ids=["compiled here", "numpy", "no compiler"]
)
def test_no_first_answer_takes_long_without_a_prebuilt_kernel(native: str, path: bool, tmp_path: Path) -> None:
    variables = {"CHEMSPEC_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT), "CHEMSPEC_NATIVE": native}
    variables |= {} if path else {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_ANSWER],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **variables},
        check=False,
    )
    assert "NCc1ccccc1.O=C(Cl)c1ccccc1" in done.stdout, done.stderr
    lines = done.stderr.splitlines()
    seconds = next(float(line) for line in lines if re.fullmatch(r"[\d.]+", line))
    assert seconds < 4 * max(1.0, slowness())
    assert any("numpy" in line for line in lines) == (native != "")


@needs_compiler
def test_what_is_compiled_later_is_compiled_once_after_the_program_with_a_word(tmp_path: Path) -> None:
    (tmp_path / "module_of_test.py").write_text(
        f"from pathlib import Path; Path({str(tmp_path / 'done')!r}).open('a').write('x')"
    )
    code = "from chemspec.system import compile_later as later; later.schedule('module_of_test'); "
    code += "later.schedule('module_of_test'); print('answer')"
    paths = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **paths})
    assert done.stdout == "answer\n" and done.stderr.count("in the background") == 1
    from helpers.serving import until

    until(lambda: (tmp_path / "done").exists() and (tmp_path / "done").read_text() == "x")
    off = {**os.environ, **paths, "CHEMSPEC_NATIVE": "prebuilt"}
    assert not subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=off).stderr


# --- the libraries themselves ---------------------------------------------------------------------


@needs_compiler
@pytest.mark.slow  # compiles the kernel and the loop, which a process below takes from the cache
def test_kernel_and_loop_compile_and_load() -> None:
    """Nothing but a missing compiler excuses from this; elsewhere the program would fall back to slower code."""
    compiled.load_library(build.SOURCE, *build.FLAGS)
    compiled.load_library(loop.SOURCE, *loop.FLAGS)


@pytest.fixture(scope="module")
def made(kernels: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The libraries of this machine, compiled as at installation; those of assets/kernels where they are current."""
    if kernels.are_there():
        return Path(kernels.FOLDER)
    folder = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "FOLDER", folder)
        patch.delenv("CHEMSPEC_NO_KERNELS", raising=False)
        assert kernels.build(kernels.for_this_machine()) == ""
    return folder


@needs_compiler
@pytest.mark.slow  # compiles two kernels and the loop
def test_the_one_of_this_machine_suits_it_and_has_no_vectors_in_the_check(made: Path, kernels: ModuleType) -> None:
    libraries = [library for library in kernels.for_this_machine() if library.level != prebuilt.BASELINE]
    for library in libraries:
        path = made / library.path.name
        opened = ctypes.CDLL(str(path))
        assert bool(opened.chemspec_processor() & build.SUITABLE) == runs_here(library.level), library.level
        if objdump := shutil.which("objdump"):
            code = subprocess.run(
                [objdump, "-d", "--no-show-raw-insn", "--disassemble=chemspec_processor", str(path)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            assert re.search(r"\bcpuid\b|\bret\b", code) and not re.search(r"%[xyz]mm|%k\d|\bv[a-z]+p[sd]\b", code)


PREDICT = """
import sys, hashlib
from pathlib import Path
from chemspec.system import prebuilt
prebuilt.kernels_folder = lambda: Path(sys.argv[1])
import chemspec
from chemspec.asset_files import bench_queries
for dtype in ("fp32", "int8"):
    engine = chemspec.load("retro", dtype=dtype, threads=1)
    results = engine.predict(list(bench_queries("retro")[:4]), n=3)
    bits = [(one.smiles, one.log_prob.hex()) for result in results for one in result.hypotheses]
    print(engine.runtime, hashlib.sha256(repr(bits).encode()).hexdigest())
"""


@needs_compiler
@pytest.mark.slow  # compiles two kernels and the loop
@pytest.mark.skipif(not installed_models(), reason="no model in assets/models")
def test_without_a_compiler_and_a_cache_they_give_the_bits_of_one_compiled_here(made: Path, tmp_path: Path) -> None:
    def bits(**environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PREDICT, str(made)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            check=True,
        )
        assert "note" not in done.stderr
        return done.stdout

    bare = bits(PATH=str(tmp_path), CHEMSPEC_CACHE=str(tmp_path / "cache"))
    assert bare == bits(CHEMSPEC_NATIVE="compile")
    assert not list((tmp_path / "cache").glob("compiled/*")), "nothing was compiled"
