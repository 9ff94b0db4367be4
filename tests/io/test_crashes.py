"""A row that ends the process fails in the end; rows beside it, and processes that somebody killed, cost no row."""

from __future__ import annotations

import csv
import faulthandler
import io
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chemspec.io import crashes, writers
from chemspec.io.crashes import CRASH, KILL, MAX_WEIGHT, CrashLog
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis

resource = pytest.importorskip("resource", reason="signals and limits are those of Unix")


class Deadly:
    """An engine whose process ends at some rows."""

    full_digest, dtype = "d", "fp32"

    def __init__(self, how: signal.Signals) -> None:
        self.how = how

    def predict(self, queries: list[str], *_: object, **__: object) -> list[DecodeResult]:
        if "die" in queries:
            os.kill(os.getpid(), self.how)
        answers = (Hypothesis("C", "C", True, ("C",), (-0.5,), -0.5, 0.6, 0.6),)
        return [DecodeResult(query, "ok", "", answers) for query in queries]


QUERIES = ["C", "CC", "die", "CCC", "die", "CCCC"]
NIGHTLY = [pytest.mark.slow, pytest.mark.nightly]  # each starts two to twenty processes


def statuses(out: Path) -> list[tuple[str, str]]:
    return [(row["query"], row["status"]) for row in csv.DictReader(io.StringIO(out.read_text()))]


@pytest.mark.parametrize(("how", "deaths"), [(signal.SIGSEGV, 2), (signal.SIGABRT, 2), (signal.SIGKILL, 5)])
@pytest.mark.parametrize("every", [pytest.param(1, marks=NIGHTLY), 4, pytest.param(16, marks=NIGHTLY)])
def test_a_file_with_rows_that_kill_is_finished(how: signal.Signals, deaths: int, every: int, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    queries = QUERIES if deaths == 2 else QUERIES[:4]  # one such row less where each costs five processes
    ended = 0
    while (done := _run(out, every, how, queries)) < 0:
        assert done == -how
        ended += 1
        assert ended <= queries.count("die") * deaths + 2, "every death brings the end nearer"
    assert done == 0
    assert statuses(out) == [(query, "failed" if query == "die" else "ok") for query in queries]
    assert ended >= deaths, "one death may be by chance"
    assert not list(tmp_path.glob("*.crash"))


def _run(out: Path, every: int, how: signal.Signals, queries: list[str]) -> int:
    """Write a file in a fork of this process; returns the exit code."""
    if not (child := os.fork()):
        try:
            faulthandler.disable()  # that of pytest
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            writers.predict_file(Deadly(how), queries, out, DecodeSettings(n=1), every=every)  # type: ignore[arg-type]
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


CRASHED = "Fatal Python error: Segmentation fault"


def log_of(before: CrashLog, row: int, rows: int, after: str, done: int) -> CrashLog:
    """The log of a process that was to go on from one, and died."""
    before.record(row, rows)
    log = CrashLog(io.StringIO())
    log.restore(before.file.getvalue() + after, done)  # type: ignore[attr-defined]
    return log


@given(st.integers(0, 50), st.integers(1, 50), st.integers(1, 40))
def test_a_kill_after_progress_is_no_row_s_fault(row: int, rows: int, further: int) -> None:
    log = log_of(CrashLog(io.StringIO(), {row: MAX_WEIGHT - 1}), row, rows, "", row + further)
    assert not log.fails(row + further) and log.size(row + further, 64) == 64


@given(st.integers(0, 50), st.integers(2, 50), st.sampled_from(["", CRASHED]))
def test_rows_among_which_it_died_go_one_by_one(row: int, rows: int, after: str) -> None:
    log = log_of(CrashLog(io.StringIO()), row, rows, after, row)
    assert [log.size(place, 64) for place in (row, row + rows - 1, row + rows)] == [1, 1, 64]
    assert not any(map(log.fails, range(row, row + rows)))
    assert log_of(log, row + 1, 1, CRASHED, row + 1).fails(row + 1) == (after == CRASHED)
    assert not log_of(log, row + 1, 1, "", row + 1).fails(row + 1), "a kill weighs less"
    assert KILL < CRASH


@pytest.mark.parametrize(("kind", "deaths"), [("", 5), (CRASHED, 2)])
def test_five_kills_weigh_as_much_as_two_crashes(kind: str, deaths: int) -> None:
    log = CrashLog(io.StringIO())
    for number in range(1, deaths + 1):
        log = log_of(log, 3, 1, kind, 3)
        assert log.fails(3) == (number == deaths)


def test_what_is_torn_is_no_death(tmp_path: Path) -> None:
    (tmp_path / "out.csv.crash").write_text('{"row": 0, "ro')
    with crashes.log_crashes(tmp_path / "out.csv", 0) as log:
        assert log.size(0, 64) == 64 and not log.fails(0)
    assert not list(tmp_path.iterdir())
