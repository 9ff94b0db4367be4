"""Jobs on disk: nothing is lost or repeated, whatever ends the work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import TESTS
from helpers.serving import until

from chemspec.jobs import job_queue, jobs, rows, store, worker
from chemspec.jobs.job_queue import JobView
from chemspec.jobs.jobs import JOBS, Job
from chemspec.jobs.store import StoreError
from chemspec.jobs.uploads import Sheet
from chemspec.settings import DecodeSettings

wait_for = partial(until, seconds=240)
HOW = DecodeSettings(decoder="greedy", n=1)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of the test's own, and predictions by a program that needs no model."""
    home = tmp_path / "home"
    monkeypatch.setenv("CHEMSPEC_HOME", str(home))
    monkeypatch.setenv("FAKE_PREDICT", str(tmp_path))
    monkeypatch.setattr(job_queue, "PREDICT", (sys.executable, str(TESTS / "jobs" / "fake_predict.py")))
    yield home
    with suppress(StoreError):  # of a home that cannot be written
        for name in JOBS.all():
            job_queue.delete_job(name)
    wait_for(lambda: not job_queue.running_job())


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


def test_jobs_that_ended_block_no_other_after_an_hour_and_waiting_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "JOBS", replace(JOBS, most=20))
    made = [make(["C"]) for _ in range(20)]
    with pytest.raises(StoreError, match=r"no longer needed$"):  # with one remedy
        make(["C"])
    JOBS.save(made[0].id, replace(made[0], state="waiting"))
    for job in made:
        age(job, 1.1 / 24)
    fresh = [make(["C"]) for _ in range(19)]
    assert folders() == {made[0].id, *(job.id for job in fresh)}
    assert [job.id for job in job_queue.waiting_jobs()] == [made[0].id]
    with pytest.raises(StoreError, match="no room"):
        make(["C"])


def test_too_many_jobs_push_out_old_ones_but_none_of_the_last_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "JOBS", replace(JOBS, most=2))
    first, _ = make(["C"]), make(["C"])
    with pytest.raises(StoreError, match="no room for another job"):
        make(["C"])
    age(first, 2)
    make(["C"])
    with pytest.raises(StoreError, match="job not found"):
        JOBS.load(first.id)


# --- the queue -----------------------------------------------------------------------------------


def test_rows_that_fail_or_crash_the_prediction_harm_no_other() -> None:
    queries = ["C", "x", "N", "!", "", "two\nlines", 'O,"', "die", ""]
    job = make(queries)
    submit(job)
    assert wait(job).job.state == "done"
    assert answered(job) == queries
    lines = rows.GrowingLines(jobs.answers_file(job)).refresh()
    written = rows.parse_rows(lines.read(range(len(lines))))
    assert " ".join(row["status"] for row in written) == "ok invalid ok failed ok invalid ok failed ok"
    assert list(lines.failed) == [1, 3, 5, 7]
    assert "model failed on this row (RuntimeError)" in written[3]["message"]


@pytest.mark.parametrize(
    "queries",
    [
        ["", "a;b", "c\td", "=1", "\u2028", "a\nb", "ω", " ", "N/A", "\ud800"],
        pytest.param(["C" * 200_000, "", "N"], marks=pytest.mark.slow),
    ],
)
def test_a_prediction_reads_the_uploaded_queries(queries: list[str], tmp_path: Path) -> None:
    job = make(queries)
    submit(job)
    wait(job)
    cells = ["" if query.strip() in ("", "N/A") else query for query in queries]
    assert answered(job) == cells
    assert asked(tmp_path) == list(dict.fromkeys(cells))  # each is predicted once


def test_jobs_of_one_moment_stand_in_their_order_and_one_that_waits_can_be_stopped_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = [make([name]) for name in ("hold", "C", "N", "O", "CC")]
    with monkeypatch.context() as patch:
        patch.setattr(store.time, "time", lambda now=time.time(): now)
        submit(first, *others)
    wait(first, "running")
    assert [job_queue.view_job(job.id).ahead for job in others] == [1, 2, 3, 4]
    _, stopped, deleted, last = others
    job_queue.stop_job(stopped.id)
    assert job_queue.view_job(stopped.id).state == "stopped"
    job_queue.delete_job(deleted.id)
    assert job_queue.view_job(last.id).ahead == 2
    (tmp_path / "go").touch()
    wait(last)
    wait_for(lambda: not job_queue.running_job())
    assert asked(tmp_path) == ["hold", "C", "CC"]
    assert not JOBS.folder(deleted.id).exists()


def test_a_stopped_job_keeps_its_rows_and_goes_on_without_repeating_any(tmp_path: Path) -> None:
    queries = [*(f"q{k}" for k in range(40)), "hold", "q41"]
    job = make(queries)
    submit(job)
    wait_for((tmp_path / "held").exists)
    job_queue.stop_job(job.id)
    assert job_queue.view_job(job.id).state == "stopped"
    stored = answered(job)
    assert stored == queries[: 40 - 40 % worker.WRITE_EVERY]
    wait_for(lambda: not job_queue.running_job())
    (tmp_path / "go").touch()
    (tmp_path / "asked").unlink()
    submit(JOBS.load(job.id))
    wait(job)
    assert answered(job) == queries
    assert asked(tmp_path) == queries[len(stored) :]


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


def test_a_job_leaves_threads_to_visitors_at_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: dict[str, Any] = {}
    monkeypatch.setattr(worker, "load_fastest", lambda name, **options: loaded.update({name: options["threads"]}))
    monkeypatch.setattr(worker, "predict_rows", lambda *_, **__: None)
    worker.run_job(make(["C"], cards=1))
    assert 1 <= loaded["m"] <= max(1, (os.cpu_count() or 1) // 2)


SERVER = """
import sys, time
from chemspec.jobs import job_queue, jobs
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


def test_all_processes_killed_lose_at_most_the_part_under_way(tmp_path: Path, server: Any) -> None:
    process, job = server
    runner = process_of(b"jobs.job_queue", process.pid)
    prediction = process_of(b"fake_predict", runner)
    process.kill()
    process.wait()
    os.kill(runner, signal.SIGKILL)
    wait_for(lambda: not job_queue.running_job() and has_ended(prediction))
    assert job_queue.view_job(job.id).state == "waiting"
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


def process_of(program: bytes, parent: int = 0) -> int:
    """Return the id of the process with this program, or argument, and parent, if one is given."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended
            text, status = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
            if program in text and (not parent or status.rsplit(")", 1)[1].split()[1] == str(parent)):
                return int(folder.name)
    raise AssertionError(f"there is no process {program!r}")


def has_ended(process: int) -> bool:
    """Return whether a process is gone, or waits only to be collected by its parent."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_a_killed_prediction_is_told_and_the_next_job_begins(tmp_path: Path) -> None:
    job, other = make(["hold"]), make(["C"])
    submit(job, other)
    wait_for((tmp_path / "held").exists)
    prediction = process_of(job.id.encode())
    assert os.getpriority(os.PRIO_PROCESS, prediction) >= 10, "visitors at a page go first"
    os.kill(prediction, signal.SIGKILL)
    wait(other)
    view = job_queue.view_job(job.id)
    assert view.state == "failed" and "signal 9" in view.job.message


def test_another_model_may_not_go_on_with_a_job() -> None:
    with pytest.raises(StoreError, match="start a new job"):
        job_queue.submit_job(make(["C"]).id, "d2")
    full = "0123456789abcdef-01234567"
    with pytest.raises(store.StoreError, match="is not the one"):
        job_queue.submit_job(make(["C"], digest=full).id, "0123456789abcdef-76543210")  # another vocabulary
    began = make(["C"], digest=full[:16])  # by an earlier version, whose digests had no vocabulary
    job_queue.submit_job(began.id, full)


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
        with pytest.raises(StoreError, match="No space"):
            job_queue.run_waiting_jobs([sys.executable, "-c", "raise SystemExit(1)"])
    assert job_queue.view_job(job.id).state == "waiting"
    job_queue.run_waiting_jobs([sys.executable, "-c", "raise SystemExit(1)"])
    assert "something unexpected happened" in job_queue.view_job(job.id).job.message
