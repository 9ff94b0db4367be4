"""Jobs of the page Batch: stored, queued, and worked at one after the other by a process of their own.

    jobs/<id>/input.jsonl   the rows as uploaded, one JSON list a line
    jobs/<id>/prices.json   the price list of the visitor who began it, if there was one
    jobs/<id>/rows.jsonl    the reviewed answers so far, which `worker` writes and resumes
    jobs/<id>/log           what it said

A server starts a detached process, the `runner`; servers may end at any time, the jobs go on. The runner renews a lease
in the store while it lives. A job whose stored state is "waiting" is to be worked at: it is running if the lease names
it, and was interrupted if there is no lease.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any, Literal, NamedTuple

import msgspec

from chemspec.plan.prices import PriceList
from chemspec.settings import DecodeSettings, Task
from chemspec.system.files import write_text_atomic
from chemspec.ui.common import store
from chemspec.ui.common.store import Documents, StoreError
from chemspec.ui.common.uploads import Sheet

MAX_WAITING = 20
RUNNER = (sys.executable, "-m", "chemspec.ui.batch.runner")
PREDICT = (sys.executable, "-m", "chemspec.ui.batch.worker")
LEASE_SECONDS = 20.0  # that a runner has to start, and after each sign of life
State = Literal["waiting", "running", "stopped", "done", "failed"]  # "running" in jobs of earlier versions only


@dataclass(frozen=True)
class Job:
    """The description of a job and its state.

    Attributes:
        file: the uploaded file as its owner called it.
        column: which of the columns holds the queries.
        digest: of the model that answers; another one may not go on with the job.
        created: seconds since 1970.
        state: "waiting" if it is to be worked at, else how the last attempt ended.
        message: why it failed.
        cards: answers of a row, each of which may stand for several predictions; 0 in jobs of earlier versions, whose
            rows are not reviewed.
        stock: names of the built-in lists of building blocks.
    """

    id: str
    file: str
    columns: tuple[str, ...]
    column: int
    model: str
    digest: str
    task: Task
    settings: DecodeSettings
    total: int
    created: float
    state: State = "stopped"
    message: str = ""
    cards: int = 0
    stock: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.column < len(self.columns):
            raise ValueError("its column of queries is missing")

    @property
    def answers(self) -> int:
        """The most answers of a row."""
        return self.cards or self.settings.n


JOBS = Documents("jobs", "job", Job, days=30, most=200, most_bytes=2e9)
KEEPING = (
    f"A job is kept for {JOBS.days} days after its last change, and a day more. If more than {JOBS.most} jobs or "
    f"{JOBS.most_bytes / 1e9:.0f} GB come together, jobs that have not changed for a day go first, oldest first."
)


@dataclass(frozen=True)
class JobView:
    """A job as a visitor sees it.

    Attributes:
        state: "running", "interrupted", or as stored.
        ahead: jobs that come first, while it waits.
    """

    job: Job
    state: str
    ahead: int = 0

    @property
    def active(self) -> bool:
        """Whether it runs, or will run by itself."""
        return self.state in ("waiting", "running")


def create_job(sheet: Sheet, *, prices: PriceList | None = None, **facts: Any) -> Job:
    """Store a new job; `submit_job` starts it.

    Args:
        sheet: the uploaded rows.
        prices: a price list of building blocks.
        facts: the other attributes of the job.

    Raises:
        StoreError: if there is no room for it, or it cannot be written.
    """
    store.ensure_home()
    facts["file"] = facts["file"][-200:]
    job = Job(id=store.new_id(), columns=sheet.columns, total=len(sheet.rows), created=time.time(), **facts)
    try:
        JOBS.make_folder(job.id)
        rows = "".join(json.dumps(row) + "\n" for row in sheet.rows)
        write_text_atomic(uploaded_file(job), rows, private=True)
        if prices:
            write_text_atomic(prices_file(job), msgspec.json.encode(prices).decode(), private=True)
        JOBS.save(job.id, job)
    except (OSError, StoreError) as error:
        shutil.rmtree(JOBS.folder(job.id), ignore_errors=True)
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"the job cannot be stored: {reason}; make room on the disk and start again") from error
    return job


def uploaded_rows(job: Job) -> list[tuple[str, ...]]:
    """Read the rows as uploaded."""
    with uploaded_file(job).open(encoding="ascii") as lines:
        return [tuple(json.loads(line)) for line in lines]


def uploaded_file(job: Job) -> Path:
    """Return the file of those rows."""
    return JOBS.folder(job.id) / "input.jsonl"


def prices_file(job: Job) -> Path:
    """Return the file of the visitor's price list; it may not exist."""
    return JOBS.folder(job.id) / "prices.json"


def answers_file(job: Job) -> Path:
    """Return the file of the answers; it exists once the first rows are answered."""
    return JOBS.folder(job.id) / "rows.jsonl"


def is_answered(job: Job) -> bool:
    """Return whether all rows are on disk."""
    path = answers_file(job)
    return path.is_file() and path.read_bytes().count(b"\n") == job.total


# --- the queue -------------------------------------------------------------------------------------


def submit_job(name: str, digest: str) -> None:
    """Put a new or stopped job at the end of the queue, unless it is queued already.

    Args:
        name: id of the job.
        digest: of the installed model of the job's name.

    Raises:
        StoreError: if too many wait, another model would answer, or the store cannot be written.
    """
    view = view_job(name)
    if digest != view.job.digest:
        message = f"the model {view.job.model} is not the one that this job began with; start a new job with the file"
        raise StoreError(message)
    if not view.active:
        if len(waiting_jobs()) > MAX_WAITING:
            raise StoreError(f"{MAX_WAITING} jobs are waiting already; try again later")
        JOBS.save(name, replace(view.job, state="waiting", message=""))
    ensure_runner()


def waiting_jobs() -> list[Job]:
    """Return the waiting jobs in the order of submission."""
    return [job for job in JOBS.all().values() if job.state == "waiting"]


def stop_job(name: str) -> None:
    """Take a job out of the queue; its runner ends the prediction, and the rows on disk stay.

    Raises:
        StoreError: if the store cannot be written.
    """
    JOBS.change(name, lambda job: replace(job, state="stopped") if job.state == "waiting" else job)


def delete_job(name: str, *, timeout: float = 60.0) -> None:
    """Stop a job and remove it with its files.

    Raises:
        StoreError: if it cannot be removed.
    """
    with suppress(StoreError):  # the disk may be full, or the job damaged
        stop_job(name)
        end = time.monotonic() + timeout
        while (lease := running_job()) and lease.job == name and time.monotonic() < end:
            time.sleep(0.02)
    JOBS.delete(name)


def view_job(name: str) -> JobView:
    """Return a job with its current state.

    Raises:
        StoreError: if there is none, or it cannot be read.
    """
    lease, job = running_job(), JOBS.load(name)  # in this order: what ends in between has written how
    if job.state not in ("waiting", "running"):
        return JobView(job, job.state)
    if lease and lease.job == name:
        return JobView(job, "running")
    queue = [other.id for other in waiting_jobs()]
    if lease and name in queue:
        return JobView(job, "waiting", queue.index(name))
    if not lease and is_answered(job):
        return JobView(replace(job, state="done"), "done")
    return JobView(job, "interrupted") if not lease or job.state == "running" else view_job(name)  # it has just ended


# --- the lease of the runner -----------------------------------------------------------------------


class Lease(NamedTuple):
    """What the store says of the runner.

    Attributes:
        token: known to the runner alone.
        beat: its last sign of life, in seconds since 1970.
        job, pid: what it works at, and the process id of the prediction.
    """

    token: str
    beat: float
    job: str
    pid: int


def running_job() -> Lease | None:
    """Return the lease of the runner; None if there is no runner."""
    with suppress(StoreError), store.open_store() as base:
        return _current_lease(base)
    return None


def _current_lease(base: sqlite3.Connection) -> Lease | None:
    row = base.execute("SELECT token, beat, job, pid FROM runner").fetchone()
    return Lease(*row) if row and abs(time.time() - row[1]) < LEASE_SECONDS else None


def take_lease() -> str:
    """Return the token of a new lease; empty if there is a runner."""
    with store.open_store() as base:
        base.execute("BEGIN IMMEDIATE")
        if _current_lease(base):
            return ""
        base.execute("DELETE FROM runner")
        base.execute("INSERT INTO runner VALUES (?, ?, '', 0)", (token := store.new_id(), time.time()))
        return token


def renew_lease(token: str, job: str, pid: int = 0) -> bool:
    """Extend the lease of a runner that works at a job; return False if another runner has taken over."""
    with store.open_store() as base:
        facts = (time.time(), job, pid, token)
        return base.execute("UPDATE runner SET beat = ?, job = ?, pid = ? WHERE token = ?", facts).rowcount == 1


def end_lease(token: str) -> None:
    """Let another runner begin."""
    with store.open_store() as base:
        base.execute("DELETE FROM runner WHERE token = ?", [token])


def ensure_runner() -> None:
    """Start a runner if jobs wait and none is running.

    Raises:
        OSError: if it cannot be started.
        StoreError: if the store cannot be written.
    """
    if waiting_jobs() and (token := take_lease()):
        quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        # In a session of its own: a Ctrl-C for the server is not for it.
        runner = subprocess.Popen([*RUNNER, token, *PREDICT], start_new_session=True, **quiet)
        Thread(target=runner.wait, daemon=True).start()  # else it would stay a zombie
