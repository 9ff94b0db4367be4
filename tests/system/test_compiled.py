"""Compiled code is run, so nobody else may have written it, and what is torn is built again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from compilers import needs_compiler
from paths import ROOT

from chemspec.decode.compiled import build as loop
from chemspec.model.runners.native import build
from chemspec.system import compiled
from chemspec.system.compiled import NoKernelError

pytestmark = needs_compiler


def test_kernel_and_loop_compile_and_load() -> None:
    """Nothing but a missing compiler excuses from this; elsewhere the program would fall back to slower code."""
    compiled.load_library(build.SOURCE, *build.FLAGS)
    compiled.load_library(loop.SOURCE, *loop.FLAGS)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "small.cpp"
    file.write_text('extern "C" int answer() { return 42; }')
    compiled.load_library.cache_clear()
    yield file
    compiled.load_library.cache_clear()


def libraries() -> list[Path]:
    return sorted(compiled.library_folder().glob("*"))


def again(source: Path) -> int:
    compiled.load_library.cache_clear()
    return int(compiled.load_library(source).answer())


def test_the_folder_is_private_and_nothing_else_is_left_in_it(source: Path) -> None:
    assert compiled.load_library(source).answer() == 42
    (library,) = libraries()
    assert library.stem.startswith("small-") and library.suffix == ".so"
    assert compiled.library_folder().stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["other", "truncated", "one bit", "empty"])
def test_a_library_that_is_not_what_was_built_is_built_again(source: Path, damage: str) -> None:
    assert again(source) == 42
    (library,) = libraries()
    before = library.read_bytes()
    library.unlink()  # the loaded one stays mapped
    flipped = bytearray(before)
    flipped[len(flipped) // 2] ^= 1
    changed = {"other": b"not a library", "truncated": before[:-100], "one bit": bytes(flipped), "empty": b""}[damage]
    library.write_bytes(changed)
    assert again(source) == 42
    assert [file.read_bytes() for file in libraries()] == [before]


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_folder_that_others_may_write_to_is_not_used(source: Path, mode: int) -> None:
    assert again(source) == 42
    compiled.library_folder().chmod(mode)
    with pytest.raises(NoKernelError, match="only you can write"):
        again(source)


def test_a_link_in_the_place_of_the_folder_is_not_followed(source: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "cache" / "compiled").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoKernelError, match="only you can write"):
        again(source)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_another_processor_gets_code_of_its_own(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert again(source) == 42
    monkeypatch.setattr(compiled, "_processor_identity", lambda: "another")
    assert again(source) == 42
    assert len(libraries()) == 2


def test_processes_that_build_at_once_all_get_it(source: Path) -> None:
    code = "import sys; from pathlib import Path; from chemspec.system import compiled\n"
    code += "assert compiled.load_library(Path(sys.argv[1])).answer() == 42"

    def run(_: int) -> int:
        return subprocess.run([sys.executable, "-c", code, str(source)], env=os.environ).returncode

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(run, range(3))) == [0, 0, 0]
    assert len(libraries()) == 1, "one source gives one library, whoever built it"


def test_a_folder_that_cannot_be_made_costs_speed_only(source: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(NoKernelError, match="could not be compiled"):
        again(source)


def test_where_the_system_has_no_compiler_that_of_a_package_is_taken(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that stands for ziglang passes its arguments on to the compiler of the system."""
    real = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))))
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__init__.py").touch()
    code = f"import os, sys; assert sys.argv[1] == 'c++'; os.execv({real!r}, [{real!r}, *sys.argv[2:]])"
    (tmp_path / "ziglang" / "__main__.py").write_text(code)
    tools = tmp_path / "tools"  # of the compiler itself, but not its own name
    tools.mkdir()
    for tool in ("as", "ld"):
        (tools / tool).symlink_to(shutil.which(tool) or "")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert again(source) == 42
    assert len(libraries()) == 1


# --- libraries that came with a wheel ------------------------------------------------------------------


@pytest.fixture
def carried(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Libraries of the small source, as a wheel carries them, and no compiler."""
    try:
        made = [tmp_path / "prebuilt" / file.name for file in prebuild(source, tmp_path / "prebuilt")]
    except NoKernelError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(compiled, "PREBUILT", tmp_path / "prebuilt")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)
    return made


def prebuild(source: Path, out: Path) -> list[Path]:
    out.mkdir(exist_ok=True)
    return compiled.build_for_all_kinds(source, ("-march=native", "-DFOUR=4"), out)


def test_without_a_compiler_what_came_with_the_package_is_loaded(source: Path, carried: list[Path]) -> None:
    assert len(carried) == len(compiled.KINDS)
    assert compiled.load_library(source, "-march=native", "-DFOUR=4").answer() == 42
    assert not (source.parent / "cache" / "compiled").exists()


@pytest.mark.parametrize("change", ["constant", "source"])
def test_what_was_made_of_something_else_is_not(source: Path, carried: list[Path], change: str) -> None:
    if change == "source":
        source.write_text('extern "C" int answer() { return 43; }')
    flags = ("-march=native", "-DFOUR=5" if change == "constant" else "-DFOUR=4")
    with pytest.raises(NoKernelError, match="no C\\+\\+ compiler"):
        compiled.load_library(source, *flags)


def test_each_processor_gets_the_best_that_it_can_run(
    source: Path, carried: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "_processor_identity", lambda: "x86_64flags\t\t: sse2 avx2 fma f16c bmi1 bmi2 movbe")
    found = compiled.find_prebuilt(source, ("-DFOUR=4",))
    assert found is not None and "-x86-64-v3-" in found.name
    monkeypatch.setattr(compiled, "_processor_identity", lambda: "aarch64Features\t: asimd")
    assert compiled.find_prebuilt(source, ("-DFOUR=4",)) is None


def test_a_library_of_a_newer_system_is_told_as_no_compiler(source: Path, carried: list[Path]) -> None:
    for file in carried:
        file.write_bytes(b"not a library")
    with pytest.raises(NoKernelError, match="no C\\+\\+ compiler"):
        compiled.load_library(source, "-march=native", "-DFOUR=4")


@pytest.mark.nightly  # compiles everything three times
@pytest.mark.slow
def test_a_wheel_may_carry_kernel_and_loop(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    env = {**os.environ, "CHEMSPEC_PREBUILT": "1", "CHEMSPEC_NO_FRONTEND": "1"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, timeout=600)
    (wheel,) = tmp_path.glob("*.whl")
    assert not wheel.name.endswith("-any.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    code = (
        "from chemspec.decode.compiled import build as loop; from chemspec.model.runners.native import build as kernel;"
        "kernel.load_kernel();"
        "print(loop.loop_library())"
    )
    env = {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path / "installed"), "CHEMSPEC_CACHE": str(tmp_path / "cache")}
    said = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert said.stdout.count("CDLL") == 1 and "prebuilt" in said.stdout, said.stdout
