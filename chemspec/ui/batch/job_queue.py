"""Run the jobs one after the other, each in a resumable `worker` process.

A server starts a detached process, the runner, which starts the predictions; servers may end at any time, the jobs go
on. Both have a low priority, so that visitors at a page go first. The runner renews a lease in the store while it
lives, and its prediction ends with it: the prediction's standard input is a pipe that the system closes. A job whose
stored state is "waiting" runs if the lease names it, and was interrupted if there is no lease.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from chemspec.system.files import OTHERS_BITS, open_private
from chemspec.ui.batch import jobs
from chemspec.ui.batch.jobs import JOBS, Job, State
from chemspec.ui.common import store
from chemspec.ui.common.store import StoreError

MAX_WAITING = 20
PREDICT = (sys.executable, "-m", "chemspec.ui.batch.worker")
LEASE_SECONDS = 20.0  # that a runner has to start, and after each sign of life
NICE = 10  # a tenth of the time that a visitor's request gets
BEAT_SECONDS = 0.5  # between two renewals of the lease; what it takes to stop a job
# A prediction that crashes is started again: it passes a row that has cost two of them.
CRASHES = {
    -getattr(signal, name) for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL") if hasattr(signal, name)
}
MAX_CRASHES = 30  # in a row, which pass ten rows at least


@dataclass(frozen=True)
class JobView:
    """A job as a visitor sees it."""

    job: Job
    state: str  # "running", "interrupted", or as stored
    ahead: int = 0  # jobs that come first, while it waits

    @property
    def active(self) -> bool:
        """Whether it runs, or will run by itself."""
        return self.state in ("waiting", "running")


def submit_job(name: str, digest: str) -> None:
    """Put a new or stopped job at the end of the queue, unless it is queued already.

    Raises StoreError if too many wait, `digest` is not that of the job's model, or the store cannot be written.
    """
    view = view_job(name)
    if digest != view.job.digest:
        message = f"the model {view.job.model} is not the one that this job began with"
        raise StoreError(f"{message}; start a new job with the file")
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
    """Stop a job and remove it with its files; raises StoreError if it cannot be removed."""
    with suppress(StoreError):  # the disk may be full, or the job damaged
        stop_job(name)
        end = time.monotonic() + timeout
        while (lease := running_job()) and lease.job == name and time.monotonic() < end:
            time.sleep(0.02)
    JOBS.delete(name)


def view_job(name: str) -> JobView:
    """Return a job with its current state; raises StoreError if there is none, or it cannot be read."""
    lease, job = running_job(), JOBS.load(name)  # in this order: what ends in between has written how
    if job.state not in ("waiting", "running"):
        return JobView(job, job.state)
    if lease and lease.job == name:
        return JobView(job, "running")
    queue = [other.id for other in waiting_jobs()]
    if lease and name in queue:
        return JobView(job, "waiting", queue.index(name))
    if not lease and jobs.is_answered(job):
        return JobView(replace(job, state="done"), "done")
    return JobView(job, "interrupted") if not lease or job.state == "running" else view_job(name)  # it has just ended


# --- the lease of the runner -----------------------------------------------------------------------


class Lease(NamedTuple):
    """What the store says of the runner."""

    token: str  # known to the runner alone
    beat: float  # its last sign of life, in seconds since 1970
    job: str  # what it works at
    pid: int  # of the prediction


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
    """Start a runner if jobs wait and none is running; raises OSError or StoreError if it cannot be started."""
    if waiting_jobs() and (token := take_lease()):
        quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        # In a session of its own: a Ctrl-C for the server is not for it.
        runner = subprocess.Popen(
            [sys.executable, "-m", "chemspec.ui.batch.job_queue", token, *PREDICT], start_new_session=True, **quiet
        )
        Thread(target=runner.wait, daemon=True).start()  # else it would stay a zombie


# --- the runner ------------------------------------------------------------------------------------


def run_waiting_jobs(predict: Sequence[str] = PREDICT, token: str = "") -> None:
    """Run the waiting jobs; return when none is left, or if another runner has the lease."""
    tried: set[str] = set()  # else a job whose end cannot be written would begin again and again

    def next_job() -> Job | None:
        return next((job for job in waiting_jobs() if job.id not in tried), None)

    token = token or take_lease()
    while token and renew_lease(token, ""):
        if job := next_job():
            tried.add(job.id)
            state, message = _run_job(job, predict, token)
            with suppress(StoreError):
                if renew_lease(token, job.id):  # else another runner is at it
                    _end_job(job.id, state, message)
                tried.remove(job.id)
        else:
            end_lease(token)
            token = take_lease() if next_job() else ""  # submitted at the last moment


def _end_job(name: str, state: State, message: str) -> None:
    """Store how a job ended, unless it was stopped."""
    JOBS.change(name, lambda job: replace(job, state=state, message=message) if job.state == "waiting" else job)


def _run_job(job: Job, predict: Sequence[str], token: str) -> tuple[State, str]:
    """Predict what is left of a job, again after a crash; return how it ended and why."""
    for _ in range(MAX_CRASHES):
        code, state, message = _run_prediction(job, predict, token)
        if code not in CRASHES or not _may_go_on(job, token):
            return state, message
    return "failed", f"the prediction crashed {MAX_CRASHES} times (signal {-code}); resume to go on behind these rows"


def _run_prediction(job: Job, predict: Sequence[str], token: str) -> tuple[int, State, str]:
    """Predict what is left of a job once; return the process's exit code, how it ended and why."""
    log = JOBS.folder(job.id) / "log"
    try:
        with open_private(log, "wb") as output:
            process = subprocess.Popen(
                [*predict, job.id],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                umask=OTHERS_BITS,  # the files of answers are private, too
            )
    except OSError as error:
        return 1, "failed", f"the prediction cannot be started: {error.strerror or error}; make room and resume"
    with process:
        while process.poll() is None:
            if not _may_go_on(job, token, process.pid):
                process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(BEAT_SECONDS)
    code = process.returncode
    if jobs.is_answered(job):
        return 0, "done", ""
    if code < 0:
        return code, "failed", f"the prediction was ended by the system (signal {-code}); resume to try again"
    return code, "failed", _last_error(log, job)


def _may_go_on(job: Job, token: str, pid: int = 0) -> bool:
    """Renew the lease; return whether the job still waits to be done, and no other runner has taken over."""
    try:
        return renew_lease(token, job.id, pid) and job.id in {other.id for other in waiting_jobs()}
    except StoreError:  # a full disk or a busy store is no reason to stop
        return True


def _last_error(log: Path, job: Job) -> str:
    """Return the last error message of a prediction, without names of folders."""
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if lines and lines[-1].startswith("error: "):
            text = lines[-1].removeprefix("error: ").replace(str(jobs.answers_file(job)), "the file of answers")
            return text.replace(str(JOBS.folder(job.id)), "the job's folder")
        if lines:
            return f"something unexpected happened ({lines[-1][:200]}); resume to try again"
    return "something unexpected happened; resume to try again"


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(NICE)
    run_waiting_jobs(sys.argv[2:], sys.argv[1])
