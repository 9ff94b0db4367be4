"""One output has one writer: the second one is refused, by whatever name of the file, and rows are lost by none."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from helpers.command_line import refusal

from chemspec.io import writers
from chemspec.io.readers import FileError
from chemspec.settings import DecodeSettings
from chemspec.system.locks import lock_file
from chemspec.types import DecodeResult, Hypothesis

# To start a Python takes longer than all else.
FORK = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
HOW = DecodeSettings(n=1, batch_size=1)
QUERIES = ["C", "CC", "CCC", "CCCC"]
ANSWER = (Hypothesis("C", "C", True, ("C",), (-0.5,), -0.5, 0.6, 0.6),)


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
    """Four processes, by three names of the output, begin together; the winner is let on last, or killed."""
    out = tmp_path / f"o{suffix}"
    (tmp_path / "link").symlink_to(tmp_path)
    programs = [Program(name) for name in (out, tmp_path / "link" / out.name, Path(os.path.relpath(out)), out)]
    try:
        check_writers(out, programs, end)
    finally:
        for program in programs:
            program.process.kill()
            program.process.join()
    assert queries_of(out) == QUERIES


class Program:
    """A fork of this process that writes to an output when it is let on, and sends what came of it."""

    def __init__(self, out: Path) -> None:
        self.pipe, other = FORK.Pipe()
        self.process = FORK.Process(target=self._write, args=(other, out))
        self.process.start()

    @staticmethod
    def _write(pipe: Connection, out: Path) -> None:
        pipe.recv()
        try:
            pipe.send(write(out, pipe.recv))
        except ValueError as error:
            pipe.send(str(error))


def check_writers(out: Path, programs: list[Program], end: str) -> None:
    for program in programs:
        program.pipe.send("begin")
    refused: list[Program] = []
    while len(refused) < len(programs) - 1:
        refused += [program for program in programs if program not in refused and program.pipe.poll(0.005)]
    for program in refused:
        told = program.pipe.recv()
        assert "another process writes to" in told and "wait for its end or choose another name" in told
    (winner,) = (program for program in programs if program not in refused)
    if end == "killed":
        winner.process.kill()
        winner.process.join()
        assert write(out) == {"ok": len(QUERIES)}
    else:
        for _ in QUERIES:
            winner.pipe.send("go on")
        assert winner.pipe.recv() == {"ok": 4}


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
