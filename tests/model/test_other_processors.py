"""The shipped weights through the whole kernel on other processors and systems: the same tokens and bits."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.compilers import needs_compiler
from helpers.kinds import runs_here
from record_kernel import record

from chemspec.engine.registry import installed_models
from chemspec.model.runners.native import build
from chemspec.system.extras import is_installed

REPLAY = Path(__file__).with_name("replay_kernel.cpp")
FLAGS = ("-std=c++17", "-O3", *build.PORTABLE_FLAGS, f"-I{build.SOURCE.parent}")
QUERIES = 4
ARM = ("aarch64-linux-gnu-g++", "qemu-aarch64-static")  # Debian: g++-aarch64-linux-gnu, qemu-user-static
pytestmark = [
    pytest.mark.skipif(not installed_models(), reason="no model in assets/models"),
    needs_compiler,
    pytest.mark.slow,  # compiles the kernel for each
    pytest.mark.nightly,
]

Result = tuple[str, int]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the kernel is given, by precision."""
    folder = tmp_path_factory.mktemp("recordings")
    for dtype in ("fp32", "int8"):
        record("retro", dtype, QUERIES, folder / dtype)
    return {dtype: folder / dtype for dtype in ("fp32", "int8")}


def replay(program: list[str], recording: Path, threads: int = 1) -> Result:
    """The hash of a recording's ids and log-probs, and the number of passes."""
    done = subprocess.run([*program, str(recording), str(threads)], capture_output=True, text=True, check=True)
    digest, passes = done.stdout.split()
    return digest, int(passes)


@pytest.fixture(scope="module")
def compile_replay(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that compiles the program that replays, each once."""
    folder, made = tmp_path_factory.mktemp("replay"), {}

    def compile_once(*command: str, suffix: str = "") -> Path:
        if command not in made:
            made[command] = folder / f"replay{len(made)}{suffix}"
            subprocess.run([*command, *FLAGS, str(REPLAY), "-o", str(made[command])], check=True, capture_output=True)
        return made[command]

    return compile_once


@pytest.fixture(scope="module")
def expected(recordings: dict[str, Path], compile_replay: Callable[..., Path]) -> dict[str, Result]:
    """The result on x86-64-v3, or on what this processor is."""
    program = compile_replay("c++", "-march=x86-64-v3" if sys.platform == "linux" and runs_here("v3") else "-O3")
    return {dtype: replay([str(program)], file) for dtype, file in recordings.items()}


@pytest.mark.parametrize("level", ["v4", "v2"])
def test_levels_of_x86_give_the_same_bits(
    level: str, expected: dict[str, Result], recordings: dict[str, Path], compile_replay: Callable[..., Path]
) -> None:
    if not runs_here(level):
        pytest.skip(f"this processor does not run {level}")
    flags = {"v4": ("-march=x86-64-v4", "-mavx512vnni"), "v2": ("-march=x86-64-v2",)}[level]
    program = compile_replay("c++", *flags)
    for threads in (1, 2):
        assert replay([str(program)], recordings["int8"], threads) == expected["int8"]
    fp32 = replay([str(program)], recordings["fp32"])
    assert fp32[1] == expected["fp32"][1], "the same tokens"
    assert (fp32 == expected["fp32"]) == (level != "v2"), "v2 has no fused multiply-add"


@pytest.mark.skipif(not all(map(shutil.which, ARM)), reason=f"needs {' and '.join(ARM)}")  # two programs that few have
@pytest.mark.parametrize("march", ["armv8.2-a+dotprod", "armv8-a"])
def test_arm_gives_the_same_bits(
    march: str, expected: dict[str, Result], recordings: dict[str, Path], compile_replay: Callable[..., Path]
) -> None:
    program = compile_replay(ARM[0], f"-march={march}", "-static")
    for dtype, recording in recordings.items():
        assert replay([ARM[1], str(program)], recording) == expected[dtype], dtype


@pytest.mark.skipif(not (shutil.which("wine") and is_installed("ziglang")), reason="needs wine and ziglang")
@pytest.mark.parametrize("processor", ["x86_64_v3", "x86_64_v4+avx512vnni"])
def test_windows_gives_the_same_bits(
    processor: str, expected: dict[str, Result], recordings: dict[str, Path], compile_replay: Callable[..., Path]
) -> None:
    if "v4" in processor and not runs_here("v4"):
        pytest.skip("this processor does not run v4")
    compiler = (sys.executable, "-m", "ziglang", "c++", "-target", "x86_64-windows-gnu", f"-mcpu={processor}")
    program = compile_replay(*compiler, suffix=".exe")
    for dtype, recording in recordings.items():
        for threads in (1, 2):
            assert replay(["wine", str(program)], recording, threads) == expected[dtype], dtype
