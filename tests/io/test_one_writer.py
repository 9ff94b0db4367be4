"""One output has one writer: the second one is refused, by whatever name of the file, and rows are lost by none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from command_line import refusal
from paths import TESTS

from chemspec.io import writers
from chemspec.io.readers import FileError
from chemspec.settings import DecodeSettings
from chemspec.system.locks import lock_file
from chemspec.types import DecodeResult, Hypothesis

HOW = DecodeSettings(n=1, batch_size=1)
QUERIES = ["C", "CC", "CCC", "CCCC"]
ANSWER = (Hypothesis("C", "C", True, ("C",), (-0.5,), -0.5, 0.6, 0.6),)
PROGRAM = f"""
import sys
from pathlib import Path
sys.path += {[str(Path(__file__).parent), str(TESTS)]!r}
from chemspec.io import writers
from test_one_writer import HOW, QUERIES, Engine

print("ready", flush=True)
sys.stdin.readline()
try:
    print(writers.predict_file(Engine(lambda: sys.stdin.readline()), QUERIES, Path(sys.argv[1]), HOW, every=1))
except ValueError as error:
    sys.exit(str(error))
"""


class Engine:
    """Answers C; `before` runs before each batch."""

    full_digest, dtype = "d", "fp32"

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.before = before

    def predict(self, queries: Sequence[str], *_: object, **__: object) -> list[DecodeResult]:
        self.before()
        return [DecodeResult(query, "ok", "", ANSWER) for query in queries]


def write(out: Path, before: Callable[[], object] = lambda: None) -> dict[str, int]:
    return writers.predict_file(Engine(before), QUERIES, out, HOW, every=1)  # type: ignore[arg-type]


def queries_of(out: Path) -> list[str]:
    if out.suffix == ".csv":
        return [line.split(",")[0] for line in out.read_text().splitlines()[1:]]
    if out.suffix == ".jsonl":
        return [json.loads(line)["query"] for line in out.read_text().splitlines()]
    parquet = pytest.importorskip("pyarrow.parquet")
    return list(parquet.read_table(out)["query"].to_pylist())


@pytest.mark.parametrize("suffix", writers.OUTPUT_ENDINGS)
@pytest.mark.parametrize("end", ["finished", "killed"])
def test_of_processes_that_begin_at_once_one_writes(suffix: str, end: str, tmp_path: Path) -> None:
    """Four programs, by three names of the output, begin together; the winner is let on last, or killed."""
    out = tmp_path / f"o{suffix}"
    (tmp_path / "link").symlink_to(tmp_path)
    names = [out, tmp_path / "link" / out.name, Path(os.path.relpath(out)), out]
    with ExitStack() as stack:
        check_writers(out, [stack.enter_context(start(name)) for name in names], end)
    assert queries_of(out) == QUERIES


def start(name: Path) -> subprocess.Popen[bytes]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(name)], **pipes)  # type: ignore[call-overload, no-any-return]


def check_writers(out: Path, programs: list[subprocess.Popen[bytes]], end: str) -> None:
    for program in programs:
        assert program.stdout and program.stdout.readline() == b"ready\n"
    for program in programs:
        assert program.stdin
        program.stdin.write(b"\n")
        program.stdin.flush()
    refused = []
    while len(refused) < len(programs) - 1:
        refused += [program for program in programs if program not in refused and program.poll() is not None]
        time.sleep(0.005)
    for program in refused:
        _, told = program.communicate()
        assert program.returncode == 1
        assert b"another process writes to" in told and b"wait for its end or choose another name" in told
    (winner,) = (program for program in programs if program not in refused)
    if end == "killed":
        winner.kill()
        winner.communicate()
        assert write(out) == {"ok": len(QUERIES)}
    else:
        told, _ = winner.communicate(b"\n" * len(QUERIES))
        assert (winner.returncode, told) == (0, b"{'ok': 4}\n")


@pytest.mark.parametrize("suffix", writers.OUTPUT_ENDINGS)
def test_a_second_writer_within_the_process_is_refused_and_changes_nothing(suffix: str, tmp_path: Path) -> None:
    out, told = tmp_path / f"o{suffix}", []

    def again() -> None:
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(FileError, match="another process writes to") as refused:
            write(out)
        told.append(str(refused.value))
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before

    assert write(out, again) == {"ok": 4}
    assert len(told) == len(QUERIES) and all(str(out) in text for text in told)
    assert queries_of(out) == QUERIES
    assert not list(tmp_path.glob("*.crash")), "only the writer's"


def append(out: Path) -> None:
    with out.open("a") as file:
        file.write("x\n")


def replace(out: Path) -> None:
    shutil.copy(out, out.with_name("copy"))
    out.with_name("copy").replace(out)


def cut(out: Path) -> None:
    os.truncate(out, out.stat().st_size - 2)


def move(out: Path) -> None:
    out.rename(out.with_name("moved.csv"))


@pytest.mark.parametrize("change", [append, replace, cut])
def test_rows_are_not_added_to_what_another_program_has_changed(change: Callable[[Path], None], tmp_path: Path) -> None:
    out, calls = tmp_path / "o.csv", []

    def third() -> None:
        calls.append(1)
        if len(calls) == 3:
            change(out)
            calls.append(out.read_bytes())  # type: ignore[arg-type]

    with pytest.raises(FileError, match=r"changed by another program.*; restore it and run the command again"):
        write(out, third)
    assert out.read_bytes() == calls[-1], "nothing is added"


def test_an_output_that_is_moved_away_is_told(tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    with pytest.raises(FileError, match="cannot be written"):
        write(out, lambda: move(out))
    assert queries_of(tmp_path / "moved.csv") == []


def test_the_command_says_that_another_one_writes(tiny_retro: Path, tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    with lock_file(out):
        told = refusal("predict", "CCO", "-m", tiny_retro, "--threads", 1, "-o", out)
    assert f"another process writes to {out}".replace(" ", "") in told.replace(" ", "")
