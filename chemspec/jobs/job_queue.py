"""Run the jobs one after the other, each in a resumable `worker` process.

A server starts a detached process, the runner, which starts the predictions; servers may end at any time, the jobs go
on. Both have a low priority, so that visitors at a page go first. The runner holds a lock while it lives, and its
prediction ends with it: the prediction's standard input is a pipe that the system closes. A prediction stores how its
job ended; after a crash the runner does. A job whose stored state is "waiting" runs if it is the one that the runner
has noted in the store. A suspended runner (SIGSTOP) keeps its lock, so no job starts until it continues or is killed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread

from chemspec.jobs import jobs, store
from chemspec.jobs.jobs import JOBS, Job
from chemspec.jobs.store import StoreError
from chemspec.system.files import OTHERS_BITS, open_private

PREDICT = (sys.executable, "-m", "chemspec.jobs.worker")
RUNNER = "runner.lock"
NICE = 10  # a tenth of the time that a visitor's request gets
BEAT_SECONDS = 0.5  # what it takes to stop a job
KILLED = (-getattr(signal, "SIGKILL", 9), -signal.SIGTERM)  # ends of a prediction that are no crash
# A prediction that crashes is started again: it passes a row that has cost two of them.
MAX_CRASHES = 30  # crashes in a row, which pass ten rows at least


@dataclass(frozen=True)
class JobView:
    """A job as a visitor sees it."""

    job: Job
    state: str  # "running", or as stored
    ahead: int = 0  # jobs that come first, while it waits

    @property
    def active(self) -> bool:
        """Whether it runs, or will run by itself."""
        return self.state in ("waiting", "running")


def submit_job(name: str, digest: str) -> None:
    """Put a new or stopped job at the end of the queue, unless it is queued already.

    Raises StoreError if `digest` (the full one) is not that of the job's model, or the store cannot be written.
    """
    from chemspec.model.manifest import is_digest_of  # slow import

    view = view_job(name)
    if not is_digest_of(view.job.digest, digest):
        message = f"the model {view.job.model} is not the one that this job began with"
        raise StoreError(f"{message}; start a new job with the file")
    if not view.active:
        JOBS.save(name, replace(view.job, state="waiting", message=""))
    ensure_runner()


def waiting_jobs() -> list[Job]:
    """Return the waiting jobs in the order of submission."""
    return [job for job in JOBS.all('"state": "waiting"').values() if job.state == "waiting"]


def stop_job(name: str) -> None:
    """Take a job out of the queue; its runner ends the prediction, and the rows on disk stay.

    Raises:
        StoreError: if the store cannot be written.
    """
    jobs.end_job(name, "stopped")


def delete_job(name: str, *, timeout: float = 60.0) -> None:
    """Stop a job and remove it with its files; raises StoreError if it cannot be removed."""
    with suppress(StoreError):  # the disk may be full, or the job damaged
        stop_job(name)
        end = time.monotonic() + timeout
        while running_job() == name and time.monotonic() < end:
            time.sleep(0.02)
    JOBS.delete(name)


def view_job(name: str) -> JobView:
    """Return a job with its current state; raises StoreError if there is none, or it cannot be read."""
    running, job = running_job() == name, JOBS.load(name)  # order matters: a job that ends in between has written how
    if job.state != "waiting":
        return JobView(job, job.state)
    if running:
        return JobView(job, "running")
    queue = [other.id for other in waiting_jobs()]
    return JobView(job, "waiting", queue.index(name) if name in queue else 0)


def running_job() -> str:
    """Return the id of the job that the runner works at; empty if there is no runner, or it has not begun."""
    with suppress(StoreError, OSError), store.open_store() as base:
        row = base.execute("SELECT job FROM runner").fetchone()
        return str(row[0]) if row and store.is_locked(RUNNER) else ""
    return ""


def ensure_runner() -> None:
    """Start a runner if jobs wait and none is running; raises OSError or StoreError if it cannot be started."""
    if waiting_jobs() and not store.is_locked(RUNNER):
        runner = subprocess.Popen(
            [sys.executable, "-m", "chemspec.jobs.job_queue", *PREDICT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C for the server is not for it
        )
        Thread(target=runner.wait, daemon=True).start()  # else it would stay a zombie


# --- the runner ------------------------------------------------------------------------------------


def run_waiting_jobs(predict: Sequence[str] = PREDICT) -> None:
    """Run the waiting jobs; return when none is left, or if there is another runner.

    Raises StoreError if the end of a job cannot be stored: else that job would begin again and again.
    """
    while waiting_jobs():  # again for what is submitted at the last moment
        with store.hold_lock(RUNNER, timeout=1.0) as held:
            if not held:
                return
            while waiting := waiting_jobs():
                _run_job(waiting[0], predict)
            _note_work("")


def _note_work(job: str) -> None:
    """Store what this runner works at, if the store can be written."""
    with suppress(StoreError), store.open_store() as base:
        base.execute("DELETE FROM runner")
        base.execute("INSERT INTO runner (job) VALUES (?)", (job,))


def _run_job(job: Job, predict: Sequence[str]) -> None:
    """Predict what is left of a job, again after a crash; store how it ended if the prediction could not."""
    for _ in range(MAX_CRASHES):
        try:
            code = _run_prediction(job, predict)
        except OSError as error:
            message = f"the prediction cannot be started: {error.strerror or error}; make room and resume"
            break
        if code == 0 or _is_stopped(job):
            return
        if code > 0:
            message = "something unexpected happened; resume to try again"
            break
        if code in KILLED:
            message = f"the prediction was ended by the system (signal {-code}); resume to try again"
            break
        message = f"the prediction crashed {MAX_CRASHES} times (signal {-code}); resume to go on behind these rows"
    jobs.end_job(job.id, "failed", message)


def _run_prediction(job: Job, predict: Sequence[str]) -> int:
    """Predict what is left of a job, until it is done or stopped; return the exit code."""
    with open_private(JOBS.folder(job.id) / "log", "wb") as log:
        process = subprocess.Popen(
            [*predict, job.id],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            umask=OTHERS_BITS,  # the files of answers are private, too
        )
    _note_work(job.id)
    with process:
        while process.poll() is None:
            if _is_stopped(job):
                process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(BEAT_SECONDS)
    return process.returncode


def _is_stopped(job: Job) -> bool:
    """Return whether the job was stopped or deleted."""
    try:
        stored = JOBS.all(job.id).get(job.id)
    except StoreError:  # a busy store is no reason to stop
        return False
    return stored is None or stored.state == "stopped"


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(NICE)
    run_waiting_jobs(sys.argv[1:])
