"""Jobs on disk: nothing is lost or repeated whatever ends the work, and nothing in a file can do harm."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import TESTS
from pyarrow import parquet
from small import tiny_folder

from chemspec import chem, precedents
from chemspec.chem import formats
from chemspec.io import spreadsheets, structures
from chemspec.io.readers import FileError
from chemspec.io.writers import result_document
from chemspec.model.checkpoint import digest_of_folder
from chemspec.plan.prices import Offer, PriceList, inchikey
from chemspec.plan.stock import Stock
from chemspec.review.forward_check import StepChecker
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis
from chemspec.ui.batch import job_queue, jobs, rows, worker
from chemspec.ui.batch.job_queue import JobView
from chemspec.ui.batch.jobs import JOBS, Job
from chemspec.ui.common import escaping, limited_reader, store, uploads
from chemspec.ui.common.store import StoreError
from chemspec.ui.common.uploads import Sheet

# Without a say in the answers, or absent unless used.
UNSTAMPED = ("batch_size", "record", "augment", "distinct", "guide", "rules")
HOW = DecodeSettings(decoder="greedy", n=1)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of the test's own, and predictions by a program that needs no model."""
    home = tmp_path / "home"
    monkeypatch.setenv("CHEMSPEC_HOME", str(home))
    monkeypatch.setenv("FAKE_PREDICT", str(tmp_path))
    monkeypatch.setattr(job_queue, "PREDICT", (sys.executable, str(TESTS / "ui" / "fake_predict.py")))
    yield home
    with suppress(StoreError):  # of a home that cannot be written
        for name in JOBS.all():
            job_queue.delete_job(name)
    wait_for(lambda: job_queue.running_job() is None)


def make(queries: Sequence[str], **more: Any) -> Job:
    sheet = Sheet(("name", "smiles"), tuple((f"n{k}", query) for k, query in enumerate(queries)))
    facts = {"file": "f.csv", "column": 1, "model": "m", "digest": "d1", "task": "forward", "settings": HOW}
    return jobs.create_job(sheet, **{**facts, **more})  # type: ignore[arg-type]


def folders() -> set[str]:
    root = store.ensure_home() / "jobs"
    return {path.name for path in root.iterdir()} if root.exists() else set()


def age(job: Job, days: float) -> None:
    """Let a job have changed last some days ago."""
    with store.open_store() as base:
        base.execute("UPDATE documents SET changed = ? WHERE id = ?", (time.time() - days * 86_400, job.id))


def submit(*made: Job) -> None:
    for job in made:
        job_queue.submit_job(job.id, "d1")


def wait(job: Job, state: str = "done") -> JobView:
    """Waits until a job that can go on by itself is in a state."""
    end = time.monotonic() + 240
    while (view := job_queue.view_job(job.id)).state != state:
        assert view.active and time.monotonic() < end, f"{view} instead of {state}"
        time.sleep(0.02)
    return view


def wait_for(ready: Callable[[], object]) -> None:
    end = time.monotonic() + 240
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


def answered(job: Job) -> list[str]:
    path = jobs.answers_file(job)
    return [json.loads(line)["query"] for line in path.read_text().splitlines()] if path.exists() else []


def asked(tmp_path: Path) -> list[str]:
    """What the predictions were asked so far."""
    return [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]


# --- jobs ----------------------------------------------------------------------------------------


def test_a_job_comes_back_from_disk_as_it_was() -> None:
    job = make(["C", "α\u2028\n", "\ud800"], file="ä<b>.csv")
    assert JOBS.load(job.id) == job
    assert [row[1] for row in jobs.uploaded_rows(job)] == ["C", "α\u2028\n", "\ud800"]


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "a" * 22 + "/..", "a/b" * 9, "a" * 23, "é" * 22])
def test_no_path_gets_in_by_an_id(name: str) -> None:
    with pytest.raises(StoreError, match="link"):
        JOBS.load(name)
    with pytest.raises(StoreError, match="link"):
        JOBS.folder(name)
    with pytest.raises(StoreError, match="link"):
        job_queue.delete_job(name)


def test_a_full_disk_leaves_no_half_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        make(["C"])
    assert not folders() and not JOBS.all()


def test_old_jobs_go_after_thirty_days_and_others_stay() -> None:
    old, new = make(["C"]), make(["C"])
    (store.ensure_home() / "jobs" / "notes.txt").touch()
    now = time.time()
    age(old, 31)
    JOBS.make_room()
    JOBS.make_room(now + 86_399)
    assert JOBS.load(old.id)  # until a day after it was found to be old
    JOBS.make_room(now + 86_500)
    assert folders() == {new.id, "notes.txt"}
    JOBS.make_room(now + 28 * 86_400)
    JOBS.make_room(now + 29.5 * 86_400)
    assert JOBS.load(new.id)
    JOBS.make_room(now + 31 * 86_400)
    JOBS.make_room(now + 33 * 86_400)
    assert folders() == {"notes.txt"}


def test_too_many_jobs_push_out_old_ones_but_none_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "JOBS", replace(JOBS, most=2))
    first, _ = make(["C"]), make(["C"])
    with pytest.raises(StoreError, match="no room for another job"):
        make(["C"])
    age(first, 2)
    make(["C"])
    with pytest.raises(StoreError, match="job not found"):
        JOBS.load(first.id)


# --- the queue -----------------------------------------------------------------------------------


def test_a_job_is_answered_row_by_row_and_bad_rows_harm_no_other() -> None:
    queries = ["C", "x", "N", "!", "", "two\nlines", 'O,"', ""]
    job = make(queries)
    submit(job)
    assert wait(job).job.state == "done"
    assert answered(job) == queries
    lines = rows.JsonLines(jobs.answers_file(job)).update()
    assert lines.kinds == ["ok", "invalid", "ok", "failed", "ok", "invalid", "ok", "ok"]
    assert lines.errors() == [1, 3, 5]
    (broken,) = lines.read([3])
    assert "model failed on this row (RuntimeError)" in broken["message"]


@pytest.mark.parametrize(
    "queries", [["", "a;b", "c\td", "=1", "\u2028", "a\nb", "ω", " ", "N/A", "\ud800"], ["C" * 200_000, "", "N"]]
)
def test_a_prediction_reads_the_uploaded_queries(queries: list[str], tmp_path: Path) -> None:
    job = make(queries)
    submit(job)
    wait(job)
    assert asked(tmp_path) == answered(job) == ["" if query.strip() in ("", "N/A") else query for query in queries]


def test_jobs_of_one_moment_stand_in_the_order_in_which_they_were_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = [make([name]) for name in ("hold", "C", "N", "O", "CC")]
    with monkeypatch.context() as patch:
        patch.setattr(store.time, "time", lambda now=time.time(): now)
        submit(first, *others)
    wait(first, "running")
    assert [job_queue.view_job(job.id).ahead for job in others] == [1, 2, 3, 4]
    (tmp_path / "go").touch()
    wait(others[-1])
    assert asked(tmp_path) == ["hold", "C", "N", "O", "CC"]


def test_a_stopped_job_keeps_its_rows_and_goes_on_without_repeating_any(tmp_path: Path) -> None:
    queries = [*(f"q{k}" for k in range(40)), "hold", "q41"]
    job = make(queries)
    submit(job)
    wait_for((tmp_path / "held").exists)
    job_queue.stop_job(job.id)
    assert job_queue.view_job(job.id).state == "stopped"
    stored = answered(job)
    assert stored == queries[: 40 - 40 % worker.WRITE_EVERY]
    wait_for(lambda: job_queue.running_job() is None)
    (tmp_path / "go").touch()
    (tmp_path / "asked").unlink()
    submit(JOBS.load(job.id))
    wait(job)
    assert answered(job) == queries
    assert asked(tmp_path) == queries[len(stored) :]


def test_a_job_that_is_resumed_while_the_runner_is_at_another_is_done_by_the_same_runner(tmp_path: Path) -> None:
    first, second = make(["C", "hold", "N"]), make(["hold", "O"])
    submit(first)
    wait_for((tmp_path / "held").exists)
    submit(second)
    job_queue.stop_job(first.id)
    wait(second, "running")
    submit(JOBS.load(first.id))
    assert job_queue.view_job(first.id) == JobView(replace(first, state="waiting"), "waiting", 1)
    (tmp_path / "go").touch()
    wait(first)
    assert (answered(second), answered(first)) == (["hold", "O"], ["C", "hold", "N"])


def test_a_job_whose_runner_was_killed_before_it_said_that_all_rows_are_there_is_done(tmp_path: Path) -> None:
    job, half = make(["C", "N"]), make(["C", "N"])
    submit(job)
    wait(job)
    wait_for(lambda: job_queue.running_job() is None)
    for name in ("rows.jsonl", "rows.jsonl.settings.json"):
        (JOBS.folder(half.id) / name).write_bytes((JOBS.folder(job.id) / name).read_bytes())
    jobs.answers_file(half).write_bytes(jobs.answers_file(job).read_bytes().splitlines(keepends=True)[0])
    for one in (job, half):
        JOBS.save(one.id, replace(one, state="waiting"))
    assert [job_queue.view_job(one.id).state for one in (job, half)] == ["done", "interrupted"]
    (tmp_path / "asked").unlink()
    job_queue.ensure_runner()  # as the next server does
    wait(half)
    assert [JOBS.load(one.id).state for one in (job, half)] == ["done", "done"]
    assert asked(tmp_path) == ["N"]  # no row twice


def test_a_waiting_job_can_be_stopped_and_deleted(tmp_path: Path) -> None:
    first, second, third = made = [make([name]) for name in ("hold", "N", "O")]
    submit(*made)
    job_queue.stop_job(second.id)
    assert job_queue.view_job(second.id).state == "stopped"
    job_queue.delete_job(third.id)
    (tmp_path / "go").touch()
    wait(first)
    wait_for(lambda: job_queue.running_job() is None)
    assert asked(tmp_path) == ["hold"]
    assert not JOBS.folder(third.id).exists()


def test_a_running_job_can_be_deleted(tmp_path: Path) -> None:
    job = make(["hold"])
    submit(job)
    wait_for((tmp_path / "held").exists)
    job_queue.delete_job(job.id)
    job_queue.delete_job(job.id)
    assert not folders() and not JOBS.all()
    other = make(["C"])
    submit(other)
    wait(other)


def test_visitors_at_a_page_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make(["hold"])
    submit(job)
    wait_for((tmp_path / "held").exists)
    told = job_queue.running_job()
    assert told and os.getpriority(os.PRIO_PROCESS, told.pid) >= 10
    loaded: dict[str, Any] = {}
    monkeypatch.setattr(worker, "load_fastest", lambda name, **options: loaded.update({name: options["threads"]}))
    monkeypatch.setattr(worker, "predict_rows", lambda *_: None)
    worker.run_job(replace(job, cards=1))
    assert 1 <= loaded["m"] <= max(1, (os.cpu_count() or 1) // 2)


SERVER = """
import sys, time
from chemspec.ui.batch import job_queue, jobs
job_queue.PREDICT = (sys.executable, *sys.argv[2:])
job_queue.submit_job(sys.argv[1], "d1")
time.sleep(600)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Job]]:
    """Another server that began a job, of which 32 rows are on disk, and holds it up in the next."""
    job = make([*(f"q{k}" for k in range(37)), "hold", "q38"])
    with subprocess.Popen([sys.executable, "-c", SERVER, job.id, *job_queue.PREDICT[1:]]) as process:
        wait_for((tmp_path / "held").exists)
        yield process, job
        process.kill()


def test_a_job_goes_on_when_its_server_is_killed(server: Any, tmp_path: Path) -> None:
    process, job = server
    process.kill()
    process.wait()
    assert job_queue.view_job(job.id).state == "running"
    (tmp_path / "go").touch()
    wait(job)
    assert answered(job) == asked(tmp_path) == [row[1] for row in jobs.uploaded_rows(job)]


def test_two_servers_do_not_work_at_one_job(server: Any, tmp_path: Path) -> None:
    _, job = server
    submit(job)
    job_queue.run_waiting_jobs(
        [sys.executable, "-c", "raise SystemExit('never run')"]
    )  # returns, for somebody is at it
    other = make(["C"])
    submit(other)
    assert job_queue.view_job(job.id).state == "running"
    assert job_queue.view_job(other.id) == JobView(replace(other, state="waiting"), "waiting", 1)
    (tmp_path / "go").touch()
    wait(other)  # by the process that the other server began
    assert answered(job) == [row[1] for row in jobs.uploaded_rows(job)]
    assert asked(tmp_path) == [*answered(job), "C"]


def test_all_processes_killed_lose_at_most_the_part_under_way(
    tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, job = server
    runner = next(int(pid.name) for pid in Path("/proc").glob("[0-9]*") if runs_queue(pid, process.pid))
    process.kill()
    process.wait()
    os.kill(runner, signal.SIGKILL)
    with monkeypatch.context() as patch:
        patch.setattr(job_queue, "LEASE_SECONDS", 1.0)
        wait_for(lambda: job_queue.running_job() is None)
        expired = job_queue.take_lease()
    job_queue.end_lease(expired)
    assert job_queue.view_job(job.id).state == "interrupted"
    stored = answered(job)
    assert len(stored) == 32
    with jobs.answers_file(job).open("ab") as file:
        file.write(b'{"query": "q3')
    (tmp_path / "go").touch()
    (tmp_path / "asked").unlink()
    job_queue.ensure_runner()  # as the next server does
    wait(job)
    assert answered(job) == [row[1] for row in jobs.uploaded_rows(job)]
    assert asked(tmp_path) == answered(job)[32:]


def runs_queue(pid: Path, parent: int) -> bool:
    try:
        text, status = (pid / "cmdline").read_bytes(), (pid / "stat").read_text()
    except OSError:
        return False
    return b"batch.job_queue" in text and status.rsplit(")", 1)[1].split()[1] == str(parent)


def test_a_runner_that_was_suspended_for_too_long_leaves_the_job_to_the_next_one(tmp_path: Path) -> None:
    job = make([*(f"q{k}" for k in range(17)), "hold", "q19"])
    submit(job)
    wait_for((tmp_path / "held").exists)
    with store.open_store() as base:  # as where its lease has run out
        base.execute("UPDATE runner SET beat = 0")
    job_queue.ensure_runner()
    second = job_queue.running_job()
    (tmp_path / "go").touch()
    wait(job)
    assert second and answered(job) == [row[1] for row in jobs.uploaded_rows(job)]


def test_a_killed_prediction_is_told_and_the_next_job_begins(tmp_path: Path) -> None:
    job, other = make(["hold"]), make(["C"])
    submit(job, other)
    wait_for((tmp_path / "held").exists)
    told = job_queue.running_job()
    assert told
    os.kill(told.pid, signal.SIGKILL)
    wait(other)
    view = job_queue.view_job(job.id)
    assert view.state == "failed" and "signal 9" in view.job.message


def test_a_row_that_crashes_the_prediction_fails_and_the_job_is_done() -> None:
    job = make(["C", "die", "N"])
    submit(job)
    wait(job)
    assert rows.JsonLines(jobs.answers_file(job)).update().kinds == ["ok", "failed", "ok"]


def test_another_model_may_not_go_on_with_a_job() -> None:
    with pytest.raises(StoreError, match="start a new job"):
        job_queue.submit_job(make(["C"]).id, "d2")


def test_a_disk_that_gets_full_is_told_and_the_job_goes_on_later(tmp_path: Path) -> None:
    queries = [f"q{k}" for k in range(50)]
    job = make(queries)
    (tmp_path / "full").write_text("2")  # the third write fails
    submit(job)
    view = wait(job, "failed")
    assert "No space left on device" in view.job.message
    assert str(store.ensure_home()) not in view.job.message
    (tmp_path / "full").unlink()
    submit(view.job)
    wait(job)
    assert answered(job) == queries


def test_a_job_whose_end_cannot_be_written_is_not_begun_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make(["C"])
    JOBS.save(job.id, replace(job, state="waiting"))

    def full(*_: Any) -> None:
        raise StoreError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(JOBS.__class__, "_write", full)
        job_queue.run_waiting_jobs([sys.executable, "-c", "print('error: nothing')"])
    assert job_queue.view_job(job.id).state == "interrupted"


def test_too_many_waiting_jobs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_queue, "MAX_WAITING", 1)
    submit(make(["hold"]), make(["C"]))
    with pytest.raises(StoreError, match="try again later"):
        submit(make(["C"]))


def test_a_job_of_an_earlier_version_opens_and_goes_on() -> None:
    queries = ["C", "N", "O"]
    job = make(queries)
    JOBS.save(job.id, replace(job, state="running"))
    stamp = {"model": "d1", "dtype": "fp32", **asdict(HOW)}
    for name in UNSTAMPED:
        del stamp[name]
    (JOBS.folder(job.id) / "rows.jsonl.settings.json").write_text(json.dumps(stamp))
    jobs.answers_file(job).write_text('{"query": "C", "status": "ok"}\n{"que')
    view = job_queue.view_job(job.id)
    assert view.state == "interrupted"
    submit(view.job)
    wait(job)
    assert answered(job) == queries


@pytest.mark.filterwarnings("ignore:forward passes are computed by torch")
@pytest.mark.parametrize("cards", [0, 1])
def test_the_worker_answers_a_job_as_its_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cards: int
) -> None:
    monkeypatch.setenv("CHEMSPEC_NATIVE", "0")  # compiling takes longer
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path / "none"))
    folder = tiny_folder(tmp_path / "tiny")
    queries, digest = ["CCO", "CC(", "", "c1ccccc1"], digest_of_folder(folder)
    settings = DecodeSettings(decoder="sbs", n=2, drafter="copy", max_len=20)
    job = make(queries, model=str(folder), digest=digest, task="retro", settings=settings, cards=cards)
    worker.run_job(job)
    lines = rows.JsonLines(jobs.answers_file(job)).update()
    written = lines.read(range(len(lines)))
    assert [row["query"] for row in written] == queries
    assert ["review" in row for row in written] == [bool(cards)] * 4  # also in those that cannot be read
    assert lines.errors() == [1, 2]
    side = json.loads((JOBS.folder(job.id) / "rows.jsonl.settings.json").read_text())
    assert side.pop("review", None) == (["suggestions"] if cards else None)
    stamp = {**asdict(settings), "model": digest, "dtype": side["dtype"]}
    assert side == {name: value for name, value in stamp.items() if name not in UNSTAMPED}


def test_a_review_that_breaks_costs_no_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make(["C", "CC"], task="retro", cards=2)
    answer = Hypothesis("CO", "CO", True, ("C", "O"), (-0.5,), -0.5, 0.6)

    class Answering:
        digest, dtype = "d1", "fp32"

        def predict(self, queries: Sequence[str], *_: Any, **__: Any) -> list[DecodeResult]:
            return [DecodeResult(query, "ok", "", (answer,)) for query in queries]

    reviewed = worker.review_result

    def break_once(task: Any, result: DecodeResult, *rest: Any, **more: Any) -> Any:
        if result.query == "C":
            raise RuntimeError("broken")
        return reviewed(task, result, *rest, **more)

    monkeypatch.setattr(worker, "review_result", break_once)
    engine: Any = Answering()
    worker.predict_rows(job, engine, partial(worker.review_rows, job, StepChecker(None), Stock({})))
    first, second = csv.DictReader(io.StringIO(rows.answers_as_csv(job).decode()))
    assert first["smiles_1"] == second["smiles_1"] == "CO"
    assert not first["class_1"] and second["class_1"]


# --- uploads -------------------------------------------------------------------------------------


def parquet_of(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer, compression="zstd")
    return buffer.getvalue()


def book_of(lines: list[list[Any]]) -> bytes:
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for line in lines:
        book.active.append(line)
    book.save(buffer)
    return buffer.getvalue()


def zip_of(**parts: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return buffer.getvalue()


def with_part(book: bytes, name: str, part: bytes) -> bytes:
    """A workbook with another content of one of its parts."""
    with zipfile.ZipFile(io.BytesIO(book)) as archive:
        return zip_of(**{each: part if each == name else archive.read(each) for each in archive.namelist()})


SHEET = "xl/worksheets/sheet1.xml"
LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "ha">%s]><worksheet
xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row><c t="str"><v>&a9;</v></c></row>
</sheetData></worksheet>""" % b"".join(
    b'<!ENTITY a%d "%s">' % (k, b"&a%d;" % (k - 1) * 10 if k else b"&a;" * 10) for k in range(10)
)
SDF = formats.to_sdf(
    [{"smiles": "CCO", "name": "spirit", "price": 3}, {"smiles": "[Na+].[OH-]", "name": "", "price": ""}]
)
SDF_ROWS = (("CCO", "spirit", "CCO", "spirit", "3"), ("[Na+].[OH-]", "", "[Na+].[OH-]", "", ""))
TABLE = b"id,smiles\n1,CCO\n2,\n"


@pytest.mark.parametrize(
    ("name", "raw", "columns", "cells"),
    [
        ("a.csv", TABLE, ("id", "smiles"), (("1", "CCO"), ("2", ""))),
        ("A.CSV.GZ", gzip.compress(TABLE, mtime=0), ("id", "smiles"), (("1", "CCO"), ("2", ""))),
        ("../../a.tsv", b"a\tb\nC\t\n", ("a", "b"), (("C", ""),)),
        ("<script>.smi", b"CCO ethanol\n\nCC\n", ("",), (("CCO ethanol",), ("",), ("CC",))),
        ("a.txt", b"CCO\r\nCC", ("",), (("CCO",), ("CC",))),
        ("a.parquet", parquet_of(id=[1, 2], s=["CCO", None]), ("id", "s"), (("1", "CCO"), ("2", ""))),
        ("a.parquet.gz", gzip.compress(parquet_of(s=['a,"b"\n']), mtime=0), ("s",), (('a,"b"\n',),)),
        ("a.parquet", parquet_of(**{"s;t;u": ["C", "C;C"]}), ("s;t;u",), (("C",), ("C;C",))),
        (
            "a.xlsx",
            book_of([["id", "name"], [], [1, "aniline"], [2.5]]),
            ("id", "name"),
            (("1", "aniline"), ("2.5", "")),
        ),
        ("a.xlsx", book_of([["a", "b"], ["=1+1", "CC"]]), ("a", "b"), (("", "CC"),)),  # no formula is computed
        ("a.sdf", SDF.encode(), ("smiles", "name", "smiles_given", "name_given", "price"), SDF_ROWS),
    ],
    ids=lambda part: part if isinstance(part, str) else "",  # pytest would name a test by its bytes
)
def test_the_rows_of_a_file(name: str, raw: bytes, columns: Any, cells: Any) -> None:
    assert uploads.read_upload(raw, name) == Sheet(columns, cells)


@pytest.mark.parametrize(
    ("name", "raw", "part"),
    [
        ("a.csv", b"x" * 50_000_000, "50 MB; 10 are the limit"),
        ("a.csv.gz", gzip.compress(b"C\n" * 15_000_000, mtime=0), "more than 20 MB"),
        ("a.csv.gz", b"PK\x03\x04", "cannot be unpacked"),
        ("a.smi", b"C\n" * 10_001, "more than 10,000 rows"),
        ("a.smi", b"C\r" * 10_001, "more than 10,000 rows"),
        ("a.csv", b"s\n" + b"C\n" * 10_001, "more than 10,000 rows"),
        ("a.parquet", parquet_of(s=["C"] * 10_001), "more than 10,000 rows"),
        ("a.csv", b"a," * 50 + b"\n", "51 columns"),
        ("a.parquet", parquet_of(**{f"c{k}": ["C"] for k in range(51)}), "51 columns"),
        ("a.csv", b"a,b\n1,2,3\n", "3 cells"),
        ("a.csv", b'a,b\n"1,2\n', "not a table"),
        ("a.csv", b'a\n"' + b"C" * 200_000, "not a table"),
        ("a.csv", b"smiles\n", "no rows"),
        ("a.smi", b"\n \n", "no rows"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"PK\x03\x04\0\0\0", "no text"),
        ("a.parquet", b"PAR1 nothing PAR1", "no parquet"),
        ("a.xlsx", b"PK", "not a readable workbook"),
        ("a.xlsx", zip_of(a=b"C"), "not a readable workbook"),
        ("a.xlsx", book_of([]), "is empty"),
        ("a.xlsx", book_of([["a"], ["C", "C"]]), "row 2 has 2 cells, the header 1"),
        ("a.xlsx", book_of([["C"] * 51]), "51 columns"),
        ("a.xlsx", with_part(book_of([["a"]]), SHEET, LAUGHS), "not a readable workbook|memory|damaged"),
        ("a.xlsx", with_part(book_of([["a"]]), SHEET, bytes(250_000_000)), "decompresses to 25. MB; the limit is 200"),
        ("a.sdf", b"", "no records"),
        ("a.sdf", b"$$$$\n" * 20_001, "20,001 records"),
        ("a.xls", b"\xd0\xcf\x11\xe0", "cannot be read here"),
        ("a.zip", b"PK", "cannot be read here"),
        ("gz", b"PK", "cannot be read here"),
        ("a.gz", gzip.compress(b"C\n", mtime=0), "cannot be read here"),
        ("a.csv.gz.gz", gzip.compress(gzip.compress(b"C\n", mtime=0), mtime=0), "cannot be read here"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",  # as above
)
def test_a_file_beyond_a_limit_is_refused(name: str, raw: bytes, part: str) -> None:
    with pytest.raises(FileError, match=part):
        uploads.read_upload(raw, name)


def test_a_file_that_unfolds_to_gigabytes_takes_no_memory_here() -> None:
    zipped = gzip.compress(bytes(1_000_000) * 300, 1, mtime=0)
    strings = pyarrow.array(["C" * 1_000_000])
    table = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 5000, pyarrow.int32()), strings)
    bomb = parquet_of(smiles=table)  # 5 GB in a few hundred bytes
    long = parquet_of(
        smiles=pyarrow.DictionaryArray.from_arrays(
            pyarrow.array([0] * 64, pyarrow.int32()), pyarrow.array(["C" * 20_000_000])
        )
    )
    tracemalloc.start()
    with pytest.raises(FileError, match="more than 20 MB, the limit"):
        uploads.read_upload(zipped, "a.csv.gz")
    with pytest.raises(FileError, match="more than 20 MB of text"):
        uploads.read_upload(bomb, "a.parquet")
    with pytest.raises(FileError, match="memory"):
        uploads.read_upload(long, "a.parquet")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 250_000_000


@pytest.mark.parametrize("name", ["a.sdf", "a.sdf.gz", "a.txt"])
def test_files_of_structures_are_read_by_a_process_of_their_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structures, "read_structure_rows", None)  # whoever reads them in this process fails
    raw = gzip.compress(SDF.encode(), mtime=0) if name.endswith(".gz") else SDF.encode()
    assert uploads.read_upload(raw, name).rows == SDF_ROWS


@pytest.mark.parametrize(
    ("fate", "seconds", "words"), [("kill -SEGV $$", 200, "damaged"), ("exec sleep 600", 0.1, "too long")]
)
def test_a_reader_that_dies_or_hangs_is_told(
    fate: str, seconds: float, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{fate}\n")
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setitem(limited_reader.KINDS, limited_reader.STRUCTURES, ((), seconds))
    with pytest.raises(FileError, match=words):
        uploads.read_upload(SDF.encode(), "a.sdf")


def test_a_record_that_cannot_be_read_keeps_its_text_so_that_its_fault_is_told() -> None:
    broken = SDF.replace(" O  ", " Xx ", 1)
    first, second = uploads.read_upload(broken.encode(), "a.sdf").texts(0)
    assert "M  END" in first and second == "[Na+].[OH-]"
    fault = formats.read_any(first, task="forward")
    assert isinstance(fault, chem.Fault) and "Xx" in fault.message


def test_reactions_of_an_rdf_are_rows() -> None:
    whole = ["CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1", "CCO>>CC=O"]
    records = [f"$RFMT\n{formats.to_rxn(*one.split('>>'))}$DTYPE yield\n$DATUM 9{n}\n" for n, one in enumerate(whole)]
    read = uploads.read_upload(f"$RDFILE 1\n$DATM now\n{''.join(records)}".encode(), "a.rdf")
    assert read == Sheet(("smiles", "name", "yield"), ((whole[0], "", "90"), (whole[1], "", "91")))


def test_a_first_line_may_be_a_row() -> None:
    assert uploads.read_upload(b"CCO,a\nCC,b\n", "a.csv", header=False).rows == (("CCO", "a"), ("CC", "b"))
    assert not uploads.looks_like_header(uploads.read_upload(b"CCO,a\nCC,b\n", "a.csv"), 0)
    assert uploads.looks_like_header(uploads.read_upload(b"CN,a\nCC,b\n", "a.csv"), 0)


@pytest.mark.parametrize(
    ("columns", "cells", "place"),
    [
        (("id", "SMILES "), ("CCO", "x"), 1),
        (("id", "name", "structure"), ("1", "CO", "CC(=O)Nc1ccccc1"), 2),
        (("a", "b"), ("", ""), 0),
        (("product", "smiles"), ("C", "C"), 1),
        (("id", "compound"), ("1", "acetyl chloride"), 1),
        (("reactants", "product"), ("C.N", "CN"), 0),
    ],
)
def test_the_column_is_guessed(columns: Any, cells: Any, place: int) -> None:
    assert uploads.guess_query_column(columns, [cells]) == place


# --- downloads -----------------------------------------------------------------------------------

EVIL = ['=HYPERLINK("http://x")', "+1+1", "-1+1|x", "@SUM(A1)", "\t=1", " =1", "＝1", "%0A=1", "\r=1"]
GOOD = ["", "CCO", "-3.5", "+1", "1e-9", "-.5", "[Na+]", "name", "<script>", "'", "(C)"]


@pytest.mark.parametrize("text", EVIL)
def test_formulas_are_made_harmless(text: str) -> None:
    assert escaping.escape_formula(text) == "'" + text


@pytest.mark.parametrize("text", GOOD)
def test_other_cells_stay_as_they_are(text: str) -> None:
    assert escaping.escape_formula(text) == text


@given(st.text(" \t\r\n\f\u2003", max_size=3), st.sampled_from("=+-@＝＋－＠|%"), st.text())
def test_no_cell_begins_like_a_formula(blanks: str, sign: str, rest: str) -> None:
    text = blanks + sign + rest
    found = escaping.escape_formula(text)
    if found != "'" + text:
        assert found == text
        float(text.replace(",", "."))  # the one thing that may begin with a sign


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\uff1d", " =", "\n=", "|", "%"])
def test_a_table_of_answers_has_no_formulas_and_a_line_an_answer(start: str) -> None:
    text = escaping.rows_to_csv([{"query": f'{start}HYPERLINK("http://x","y")', "note": "two\nlines"}])
    assert len(text.splitlines()) == 2
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["query"].startswith("'") and row["note"] == "two lines"


def test_downloads_hold_the_uploaded_columns_and_the_answers() -> None:
    sheet = Sheet(("=name", "smiles", "ω"), (("@a", "C", "-1"), ("b", "x", "=1")))
    job = jobs.create_job(sheet, file="f", column=1, model="m", digest="d1", task="retro", settings=HOW)
    assert rows.answers_as_jsonl(job) == b""
    assert len(rows.answers_as_csv(job).splitlines()) == 1
    submit(job)
    wait(job)
    table = list(csv.DictReader(io.StringIO(rows.answers_as_csv(job).decode("utf-8-sig"))))
    assert [[row["row"], row["'=name"], row["ω"]] for row in table] == [["1", "'@a", "-1"], ["2", "b", "'=1"]]
    assert [row["smiles_1"] for row in table] == ["C", ""]
    assert [row["status"] for row in table] == ["ok", "invalid"]
    assert (table[0]["probability_1"], table[0]["log_prob_1"]) == ("0.6", "-0.5")
    assert (table[0]["chance_1"], table[0]["note_1"]) == ("", "")
    lines = [*spreadsheets.read_workbook_rows(rows.answers_as_xlsx(job), "it")]
    assert lines[0] == [name.removeprefix("'") for name in table[0]]
    assert lines[1][:5] == ["1", "@a", "-1", "C", "ok"]
    records = uploads.read_upload(rows.answers_as_sdf(job), "a.sdf")
    (record,) = [dict(zip(records.columns, cells, strict=True)) for cells in records.rows]
    assert (record["smiles"], record["row"], record["rank"], record["_name"]) == ("C", "1", "1", "@a")
    lines = [json.loads(line) for line in rows.answers_as_jsonl(job).splitlines()]
    assert [line["input"] for line in lines] == [{"=name": "@a", "ω": "-1"}, {"=name": "b", "ω": "=1"}]
    assert [line["row"] for line in lines] == [1, 2]
    assert lines[0]["hypotheses"][0]["canonical"] == "C"


def test_a_table_tells_class_stock_and_the_verdict_of_the_forward_model() -> None:
    amide = "CC(=O)Nc1ccccc1"
    prices = PriceList({inchikey("Nc1ccccc1"): Offer(12.5, "EUR/g", "Acme")}, (), 1)
    how = DecodeSettings(decoder="beam", n=3)
    facts = {"file": "f", "column": 0, "model": "m", "digest": "d1", "task": "retro", "settings": how}
    job = jobs.create_job(Sheet(("smiles",), ((amide,),)), prices=prices, cards=2, **facts)
    answers = [
        Hypothesis(one, chem.canonical(one) or "", True, (one,), (-1,), -1, 0.2, "eos", 0.25)
        for one in ("CC(=O)Cl.Nc1ccccc1", "CC(=O)O.Nc1ccccc1", "CCN")
    ]
    asked: list[list[str]] = []

    class Forward:
        def predict(self, reactants: Sequence[str], _: DecodeSettings) -> list[DecodeResult]:
            asked.append(list(reactants))
            return [
                DecodeResult(one, "ok", "", (Hypothesis(amide, amide, True, (), (), 0, 0.93, "eos"),))
                for one in reactants
            ]

    checker, (_, stock) = StepChecker(Forward(), index=precedents.installed()), worker.load_review(job, 1)
    review, _ = worker.review_rows(job, checker, stock, [DecodeResult(amide, "ok", "", tuple(answers))])[0]
    document = result_document(DecodeResult(amide, "ok", "", tuple(answers))) | {"review": review}
    jobs.answers_file(job).write_text(json.dumps(document) + "\n")
    (row,) = csv.DictReader(io.StringIO(rows.answers_as_csv(job).decode("utf-8-sig")))
    assert row["smiles_1"] == "CC(=O)Cl.Nc1ccccc1" and row["alike_1"] == "CC(=O)O.Nc1ccccc1"  # one strategy
    assert (row["class_1"], row["chance_1"], row["probability_1"]) == ("Amide formation", "0.5", "0.2")
    assert row["forward_model_1"] == row["forward_model_2"] == "agrees (93 %)"
    assert int(row["patent_reactions_1"]) > 100 and row["patents_1"].count("US") == 3
    assert row["stock_1"] == "○ in no list; ● buy, 12.50 EUR/g, Acme"
    assert row["conditions_1"] and row["conditions_1"].isascii()
    assert "cannot supply" in row["note_2"] and "smiles_3" not in row
    assert rows.answers_as_sdf(job).count(b"$$$$") == 2
    before = rows.answers_as_csv(job), len(asked)
    assert (rows.answers_as_csv(job), len(asked)) == before  # a download looks nothing up


def test_half_a_line_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = rows.JsonLines(path)
    assert len(lines.update()) == 0
    path.write_bytes(b'{"status": "ok"}\n{"stat')
    assert len(lines.update()) == 1
    path.write_bytes(b'{"status": "ok"}\n{"status": "invalid"}\n')
    assert lines.update().kinds == ["ok", "invalid"]
    assert lines.read([1, 0]) == [{"status": "invalid"}, {"status": "ok"}]


def test_the_pace_counts_only_what_was_seen_to_grow(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"status": "ok"}\n' * 10)
    lines = rows.JsonLines(path).update()
    assert lines.pace(growing=True, now=0) is None
    found = []
    for now, count in ((100, 12), (101, 12), (104, 14), (110, 15)):
        path.write_bytes(b'{"status": "ok"}\n' * count)
        found.append(lines.update().pace(growing=True, now=now))
    assert found == [None, None, 2, pytest.approx(10 / 3)]
    assert lines.pace(growing=False, now=111) is None
    assert lines.pace(growing=True, now=112) is None
