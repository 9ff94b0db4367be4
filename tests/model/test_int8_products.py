"""Products in int8 on processors of another make, emulated: the sums of plain C++, to the last bit."""

import shutil
import subprocess
from pathlib import Path

import pytest

from chemspec.model.runners.native import build

HARNESS = Path(__file__).with_name("int8_products.cpp")
FLAGS = ("-std=c++17", "-O3", "-static", *build.FLAGS[1:])
TOOLS = ("aarch64-linux-gnu-g++", "qemu-aarch64-static")  # Debian: g++-aarch64-linux-gnu, qemu-user-static


@pytest.mark.slow  # compiles the kernel for it
@pytest.mark.nightly  # with two programs that few have
@pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {' and '.join(TOOLS)}")
def test_arm_gives_the_same_sums(tmp_path: Path) -> None:
    program = tmp_path / "products"
    march = "-march=armv8.2-a+dotprod"
    subprocess.run([TOOLS[0], march, *FLAGS, f"-I{build.SOURCE.parent}", str(HARNESS), "-o", str(program)], check=True)
    told = subprocess.run([TOOLS[1], str(program)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout
    assert told.stdout.split() == ["480"]
