"""Jobs on disk: nothing is lost or repeated whatever ends the work, and nothing in a file can do harm."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import TESTS
from pyarrow import parquet

from chemspec.io import writers
from chemspec.io.readers import FileError
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis
from chemspec.ui.batch import jobs, rows, worker
from chemspec.ui.batch.jobs import Job, JobError
from chemspec.ui.batch.worker import Worker
from chemspec.ui.common import app_dir, uploads
from chemspec.ui.common.turns import Turns
from chemspec.ui.common.uploads import Sheet

HOW = DecodeSettings(decoder="greedy", n=1)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


class Fake:
    """A model that answers C, refuses x, breaks at ! and can be held up."""

    dtype = "fp32"

    def __init__(self, digest: str = "d1") -> None:
        self.digest = digest
        self.asked: list[str] = []
        self.before: Callable[[str], None] = lambda _: None

    def predict(self, queries: Sequence[str], settings: Any, *, progress: Any) -> list[DecodeResult]:
        for query in queries:
            self.before(query)
            if query == "!":
                raise RuntimeError("broken")
        self.asked += queries
        return [self.answer(query) for query in queries]

    def answer(self, query: str) -> DecodeResult:
        if query == "x":
            return DecodeResult(query, "invalid", "x is no atom")
        return DecodeResult(query, "ok", "", (Hypothesis("C", "C", True, ("C",), (-0.5,), -0.5, 0.6),))


def make(queries: Sequence[str], **more: Any) -> Job:
    sheet = Sheet(("name", "smiles"), tuple((f"n{k}", query) for k, query in enumerate(queries)))
    facts = {"file": "f.csv", "column": 1, "model": "m", "digest": "d1", "task": "forward"}
    return jobs.create(sheet, settings=HOW, **{**facts, **more})  # type: ignore[arg-type]


@pytest.fixture
def at_work() -> Iterator[Worker]:
    found = Worker(Turns())
    yield found
    found.close()


def wait(worker: Worker, job: Job, *states: str) -> worker.View:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        view = worker.view(job.id)
        if view.state in (states or ("done",)):
            return view
        time.sleep(0.005)
    raise AssertionError(f"{view} is not {states}")


def answered(job: Job) -> list[str]:
    path = jobs.answers(job)
    return [json.loads(line)["query"] for line in path.read_text().splitlines()] if path.exists() else []


# --- home ----------------------------------------------------------------------------------------


def test_the_home_is_made_for_its_owner_only(place: Path) -> None:
    assert app_dir.app_dir() == place
    assert place.stat().st_mode & 0o077 == 0
    assert list(place.iterdir()) == []


def test_a_home_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "file" / "inside"))
    with pytest.raises(app_dir.AppDirError, match="CHEMSPEC_HOME"):
        app_dir.app_dir()
    with pytest.raises(app_dir.AppDirError):
        make(["C"])


# --- jobs ----------------------------------------------------------------------------------------


def test_a_job_comes_back_from_disk_as_it_was() -> None:
    job = make(["C", "α\u2028\n", "\ud800"], file="ä<b>.csv")
    assert jobs.load(job.id) == job
    assert [row[1] for row in jobs.inputs(job)] == ["C", "α\u2028\n", "\ud800"]


def test_ids_cannot_be_guessed() -> None:
    assert len({make(["C"]).id for _ in range(5)}) == 5
    assert all(len(path.name) == 22 for path in jobs.root().iterdir())


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "a" * 22 + "/..", "a/b" * 9, "a" * 23, "é" * 22])
def test_no_path_gets_in_by_an_id(name: str) -> None:
    with pytest.raises(JobError, match="link"):
        jobs.load(name)
    with pytest.raises(JobError, match="link"):
        jobs.delete(name)


def test_a_job_that_is_not_there_or_damaged_is_told() -> None:
    with pytest.raises(JobError, match="no such job"):
        jobs.load("a" * 22)
    job = make(["C"])
    (jobs.folder(job.id) / "job.json").write_text('{"id": 3')
    with pytest.raises(JobError, match="cannot be read"):
        jobs.load(job.id)


def test_a_full_disk_leaves_no_half_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(JobError, match="No space left"):
        make(["C"])
    assert list(jobs.root().iterdir()) == []


def test_a_state_is_saved_wholly_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make(["C"])

    def die(_: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", die)
        with pytest.raises(KeyboardInterrupt):
            jobs.save(replace(job, state="done"))
    assert jobs.load(job.id).state == "waiting"


def test_deleting_removes_every_file() -> None:
    job = make(["C"])
    jobs.delete(job.id)
    jobs.delete(job.id)
    assert list(jobs.root().iterdir()) == []


def test_old_jobs_go_after_thirty_days_and_others_stay() -> None:
    old, new = make(["C"]), make(["C"])
    (jobs.root() / "notes.txt").touch()
    now = time.time()
    for file in (jobs.folder(old.id), *jobs.folder(old.id).iterdir()):
        os.utime(file, (now - 31 * 86_400,) * 2)
    jobs.clean()
    assert {path.name for path in jobs.root().iterdir()} == {new.id, "notes.txt"}
    jobs.clean(now + 29 * 86_400)
    assert jobs.load(new.id)
    jobs.clean(now + 31 * 86_400)
    assert [path.name for path in jobs.root().iterdir()] == ["notes.txt"]


def test_too_many_jobs_push_out_old_ones_but_none_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_JOBS", 2)
    first, _ = make(["C"]), make(["C"])
    with pytest.raises(JobError, match="no room for another job"):
        make(["C"])
    two_days = (time.time() - 2 * 86_400,) * 2
    for file in (jobs.folder(first.id), *jobs.folder(first.id).iterdir()):
        os.utime(file, two_days)
    make(["C"])
    with pytest.raises(JobError, match="no such job"):
        jobs.load(first.id)


# --- the worker ----------------------------------------------------------------------------------


def test_a_job_is_answered_row_by_row_and_bad_rows_harm_no_other(at_work: Worker) -> None:
    queries = ["C", "x", "N", "!", "", "O"]
    job, model = make(queries), Fake()
    at_work.submit(job, model)
    assert wait(at_work, job).job.state == "done"
    assert answered(job) == queries
    lines = rows.Lines(jobs.answers(job)).update()
    assert lines.kinds == ["ok", "invalid", "ok", "failed", "ok", "ok"]
    assert lines.errors() == [1, 3]
    (broken,) = lines.read([3])
    assert "model failed on this row (RuntimeError)" in broken["message"]


def test_jobs_take_turns_one_after_the_other(at_work: Worker) -> None:
    model = Fake()
    first, second = make(["C"] * 5), make(["N"] * 5)
    model.before = lambda _: wait_for(lambda: at_work._place(second.id) is not None)
    at_work.submit(first, model)
    at_work.submit(second, model)
    wait(at_work, second)
    assert model.asked == ["C"] * 5 + ["N"] * 5


def wait_for(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_a_stopped_job_keeps_its_rows_and_goes_on_without_repeating_any(at_work: Worker) -> None:
    queries = [f"q{k}" for k in range(40)]
    job, model = make(queries), Fake()
    model.before = lambda query: at_work.stop(job.id) if query == "q20" else None
    at_work.submit(job, model)
    view = wait(at_work, job, "stopped", "done")
    assert view.state == "stopped"
    kept = answered(job)
    assert 20 < len(kept) < 40 or kept == queries[: len(kept)]
    assert kept == queries[: len(kept)]
    model.before, model.asked = lambda _: None, []
    at_work.submit(view.job, model)
    wait(at_work, job)
    assert answered(job) == queries
    assert model.asked == queries[len(kept) :]


def test_a_waiting_job_can_be_stopped_and_deleted(at_work: Worker) -> None:
    model, going = Fake(), []
    first, second, third = make(["C"]), make(["N"]), make(["O"])
    model.before = lambda _: wait_for(lambda: bool(going))
    for job in (first, second, third):
        at_work.submit(job, model)
    wait(at_work, first, "running")
    assert (at_work.view(second.id).ahead, at_work.view(third.id).ahead) == (1, 2)
    at_work.stop(second.id)
    assert at_work.view(second.id).state == "stopped"
    at_work.delete(third.id)
    going.append(1)
    wait(at_work, first)
    assert model.asked == ["C"]
    assert not jobs.folder(third.id).exists()


def test_a_running_job_can_be_deleted(at_work: Worker) -> None:
    job, model = make([f"q{k}" for k in range(1000)]), Fake()
    model.before = lambda _: time.sleep(0.002)
    at_work.submit(job, model)
    wait(at_work, job, "running")
    at_work.delete(job.id)
    assert list(jobs.root().iterdir()) == []
    other = make(["C"])
    at_work.submit(other, Fake())
    wait(at_work, other)


def test_visitors_at_a_page_go_first() -> None:
    turns, model = Turns(), Fake()
    at_work = Worker(turns)
    job = make([f"q{k}" for k in range(30)])
    seen = []
    model.before = lambda _: time.sleep(0.03)
    at_work.submit(job, model)
    wait_for(lambda: len(model.asked) > 0)
    with turns.turn():
        seen = [*model.asked]
        time.sleep(0.1)
        assert model.asked == seen
    assert len(seen) < 30
    wait(at_work, job)
    at_work.close()


def test_a_job_of_an_ended_server_is_interrupted_and_goes_on(at_work: Worker) -> None:
    queries = [f"q{k}" for k in range(30)]
    job, model = make(queries), Fake()
    earlier = Worker(Turns())
    ends: list[Any] = []
    model.before = lambda query: ends.append(1) if query == "q9" else time.sleep(0.001)
    earlier.submit(job, model)
    wait_for(lambda: bool(ends))
    earlier.close()
    assert jobs.load(job.id).state == "running"
    view = at_work.view(job.id)
    assert view.state == "interrupted"
    assert not view.active
    kept = answered(job)
    model = Fake()
    at_work.submit(view.job, model)
    wait(at_work, job)
    assert answered(job) == queries
    assert model.asked == queries[len(kept) :]


KILLED = """
import os, sys
sys.path[:0] = [{tests!r}, {tests!r} + '/ui']
from test_jobs import Fake, make
from chemspec.ui.common.turns import Turns
from chemspec.ui.batch.worker import Worker
job, model = make([f"q{{k}}" for k in range(60)]), Fake()
print(job.id, flush=True)
def before(query):
    if query == "q37":
        with (jobs.folder(job.id) / "rows.jsonl").open("ab") as file:
            file.write(b'{{"query": "q3')
        os.kill(os.getpid(), 9)
from chemspec.ui.batch import jobs
model.before = before
Worker(Turns()).submit(job, model)
import time; time.sleep(60)
"""


def test_a_killed_server_loses_at_most_the_part_under_way(at_work: Worker) -> None:
    code = KILLED.format(tests=str(TESTS))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    job = jobs.load(done.stdout.strip())
    lines = rows.Lines(jobs.answers(job)).update()
    kept = [item["query"] for item in lines.read(range(len(lines)))]
    assert 37 - HOW.batch_size < len(kept) <= 37
    model = Fake()
    at_work.submit(job, model)
    wait(at_work, job)
    assert answered(job) == [f"q{k}" for k in range(60)]
    assert model.asked == [f"q{k}" for k in range(len(kept), 60)]
    assert len(lines.update()) == 60


def test_another_model_may_not_go_on_with_a_job(at_work: Worker) -> None:
    with pytest.raises(JobError, match="start a new job"):
        at_work.submit(make(["C"]), Fake("d2"))


def test_two_servers_do_not_work_at_one_job(at_work: Worker) -> None:
    job, model, other = make(["C", "N"]), Fake(), Worker(Turns())
    begun: list[str] = []
    going: list[int] = []

    def hold(query: str) -> None:
        begun.append(query)
        wait_for(lambda: bool(going))

    model.before = hold
    at_work.submit(job, model)
    # A job counts as running from when it is first in the queue; the lock is taken a moment later.
    wait_for(lambda: bool(begun))
    other.submit(job, Fake())
    assert "another server" in wait(other, job, "failed").job.message
    going.append(1)
    wait(at_work, job)
    assert answered(job) == ["C", "N"]
    other.close()


def test_a_disk_that_gets_full_is_told_and_the_job_goes_on_later(
    at_work: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, append, left = make([f"q{k}" for k in range(50)]), writers._append, [3]

    def full(file: Any, lines: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            file.write(b'{"quer')
            file.flush()
            raise OSError(28, "No space left on device")
        append(file, lines)

    with monkeypatch.context() as patch:
        patch.setattr(writers, "_append", full)
        at_work.submit(job, Fake())
        view = wait(at_work, job, "failed")
    assert "No space left on device" in view.job.message
    assert str(jobs.root()) not in view.job.message
    at_work.submit(view.job, Fake())
    wait(at_work, job)
    assert answered(job) == [f"q{k}" for k in range(50)]


def test_too_many_waiting_jobs_are_refused(at_work: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST_WAITING", 1)
    model, going = Fake(), []
    model.before = lambda _: wait_for(lambda: bool(going))
    at_work.submit(make(["C"]), model)
    at_work.submit(make(["C"]), model)
    with pytest.raises(JobError, match="try again later"):
        at_work.submit(make(["C"]), model)
    going.append(1)


def test_parts_are_as_long_as_a_visitor_may_wait() -> None:
    guest = worker.QueuedEngine(Fake(), Turns(), lambda: None)
    assert guest.size(16) == 1
    guest._seconds = worker.AIM / 5.5
    assert (guest.size(16), guest.size(3)) == (5, 3)
    guest._seconds = 100.0
    assert guest.size(16) == 1


# --- uploads -------------------------------------------------------------------------------------


def parquet_of(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer, compression="zstd")
    return buffer.getvalue()


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
    ],
)
def test_the_rows_of_a_file(name: str, raw: bytes, columns: Any, cells: Any) -> None:
    assert uploads.read(raw, name) == Sheet(columns, cells)


@pytest.mark.parametrize(
    ("name", "raw", "part"),
    [
        ("a.csv", b"x" * 50_000_000, "50 MB; 10 are the limit"),
        ("a.csv.gz", gzip.compress(b"C\n" * 15_000_000, mtime=0), "more than 20 MB"),
        ("a.csv.gz", b"PK\x03\x04", "cannot be unpacked"),
        ("a.smi", b"C\n" * 10_001, "more than 10,000 rows"),
        ("a.smi", b"C\r" * 10_001, "more than 10,000 rows"),
        ("a.csv", b"s\n" + b"C\n" * 10_001, "more than 10,000 rows"),
        ("a.parquet", parquet_of(s=["C"] * 10_001), "10,001 rows"),
        ("a.csv", b"a," * 50 + b"\n", "51 columns"),
        ("a.parquet", parquet_of(**{f"c{k}": ["C"] for k in range(51)}), "51 columns"),
        ("a.csv", b"a,b\n1,2,3\n", "3 cells"),
        ("a.csv", b'a,b\n"1,2\n', "no table"),
        ("a.csv", b'a\n"' + b"C" * 200_000, "no table"),
        ("a.csv", b"smiles\n", "no rows"),
        ("a.smi", b"\n \n", "no rows"),
        ("a.csv", b"", "is empty"),
        ("a.csv", b"PK\x03\x04\0\0\0", "no text"),
        ("a.parquet", b"PAR1 nothing PAR1", "no parquet"),
        ("a.xlsx", b"PK", "cannot be read here"),
        ("a.zip", b"PK", "cannot be read here"),
        ("gz", b"PK", "cannot be read here"),
        ("a.gz", gzip.compress(b"C\n", mtime=0), "cannot be read here"),
        ("a.csv.gz.gz", gzip.compress(gzip.compress(b"C\n", mtime=0), mtime=0), "cannot be read here"),
    ],
)
def test_a_file_beyond_a_limit_is_refused(name: str, raw: bytes, part: str) -> None:
    with pytest.raises(FileError, match=part):
        uploads.read(raw, name)


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
        uploads.read(zipped, "a.csv.gz")
    with pytest.raises(FileError, match="more than 20 MB of text"):
        uploads.read(bomb, "a.parquet")
    with pytest.raises(FileError, match="memory"):
        uploads.read(long, "a.parquet")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 250_000_000


def test_a_first_line_may_be_a_row() -> None:
    assert uploads.read(b"CCO,a\nCC,b\n", "a.csv", header=False).rows == (("CCO", "a"), ("CC", "b"))
    assert not uploads.has_header(uploads.read(b"CCO,a\nCC,b\n", "a.csv"), 0)
    assert uploads.has_header(uploads.read(b"CN,a\nCC,b\n", "a.csv"), 0)


@pytest.mark.parametrize(
    ("columns", "cells", "place"),
    [
        (("id", "SMILES "), ("CCO", "x"), 1),
        (("id", "name", "structure"), ("1", "CO", "CC(=O)Nc1ccccc1"), 2),
        (("a", "b"), ("", ""), 0),
        (("product", "smiles"), ("C", "C"), 1),
    ],
)
def test_the_column_is_guessed(columns: Any, cells: Any, place: int) -> None:
    assert uploads.guess_column(columns, [cells]) == place


# --- downloads -----------------------------------------------------------------------------------

EVIL = ['=HYPERLINK("http://x")', "+1+1", "-1+1|x", "@SUM(A1)", "\t=1", " =1", "＝1", "%0A=1", "\r=1"]
GOOD = ["", "CCO", "-3.5", "+1", "1e-9", "-.5", "[Na+]", "name", "<script>", "'", "(C)"]


@pytest.mark.parametrize("text", EVIL)
def test_formulas_are_made_harmless(text: str) -> None:
    assert rows.harmless(text) == "'" + text


@pytest.mark.parametrize("text", GOOD)
def test_other_cells_stay_as_they_are(text: str) -> None:
    assert rows.harmless(text) == text


@given(st.text())
def test_no_cell_begins_like_a_formula(text: str) -> None:
    found = rows.harmless(text)
    assert found.removeprefix("'") == text.removeprefix("'")
    assert found.lstrip()[:1] not in tuple("=@") and not found.startswith(("-c", "+c"))


def test_downloads_hold_the_uploaded_columns_and_the_answers(at_work: Worker) -> None:
    sheet = Sheet(("=name", "smiles", "ω"), (("@a", "C", "-1"), ("b", "x", "=1")))
    job = jobs.create(sheet, file="f", column=1, model="m", digest="d1", task="retro", settings=HOW)
    assert rows.as_jsonl(job) == b""
    assert len(rows.as_csv(job).splitlines()) == 1
    at_work.submit(job, Fake())
    wait(at_work, job)
    table = list(csv.DictReader(io.StringIO(rows.as_csv(job).decode("utf-8-sig"))))
    assert [[row["row"], row["'=name"], row["ω"]] for row in table] == [["1", "'@a", "-1"], ["2", "b", "'=1"]]
    assert [row["smiles_1"] for row in table] == ["C", ""]
    assert [row["status"] for row in table] == ["ok", "invalid"]
    assert (table[0]["probability_1"], table[0]["log_prob_1"]) == ("0.6", "-0.500000")
    lines = [json.loads(line) for line in rows.as_jsonl(job).splitlines()]
    assert [line["input"] for line in lines] == [{"=name": "@a", "ω": "-1"}, {"=name": "b", "ω": "=1"}]
    assert [line["row"] for line in lines] == [1, 2]
    assert lines[0]["hypotheses"][0]["canonical"] == "C"


def test_half_a_line_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = rows.Lines(path)
    assert len(lines.update()) == 0
    path.write_bytes(b'{"status": "ok"}\n{"stat')
    assert len(lines.update()) == 1
    path.write_bytes(b'{"status": "ok"}\n{"status": "invalid"}\n')
    assert lines.update().kinds == ["ok", "invalid"]
    assert lines.read([1, 0]) == [{"status": "invalid"}, {"status": "ok"}]
