"""Compiled code is run, so nobody else may have written it, and what is torn is built again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.compilers import needs_compiler

from chemspec.system import compiled
from chemspec.system.compiled import NoKernelError

pytestmark = needs_compiler


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
