"""Run the jobs of a folder, one at a time, each in a resumable `worker` process.

A server writes jobs to disk and starts one detached process, the runner, which starts the predictions; both have a
low priority, so that visitors at a page go first. A server may end at any time, the jobs go on.

    jobs.lock   locked by the runner of this folder, and by the prediction that it started: the system frees it when
                both have ended, however they end; it holds the id of the running job and the prediction's process id
    jobs/<id>/place   when the job was submitted, in nanoseconds since 1970: the queue is in this order

A job whose stored state is "waiting" is to be worked at. It is running if the lock is held for it, and was interrupted
if the lock is free.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from chemspec.system.files import OTHERS_BITS, open_private, write_text_atomic
from chemspec.ui.batch import jobs
from chemspec.ui.batch.jobs import Job, JobError
from chemspec.ui.common import app_dir

MAX_WAITING = 20
PREDICT = (sys.executable, "-m", "chemspec.ui.batch.worker")
NICE = 10  # a tenth of the time that a visitor's request gets
# A prediction that crashes is started again: it passes a row that has cost two of them.
CRASHES = {
    -getattr(signal, name) for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL") if hasattr(signal, name)
}
MAX_CRASHES = 30  # in a row, which pass ten rows at least
_runners: list[subprocess.Popen[bytes]] = []  # started here, to be waited for once they have ended


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


def submit_job(job: Job, digest: str) -> None:
    """Put a new or stopped job at the end of the queue, unless it is queued already.

    Args:
        job: as it is on disk.
        digest: of the installed model of the job's name.

    Raises:
        JobError: if too many wait, another model would answer, or its folder cannot be written.
    """
    if digest != job.digest:
        raise JobError(f"the model {job.model} is not the one that this job began with; start a new job with the file")
    if not view_job(job.id).active:
        queue = _queued_jobs()
        if len(queue) > MAX_WAITING:
            raise JobError(f"{MAX_WAITING} jobs are waiting already; try again later")
        # Behind all others, also where the clock was set back or has not moved since the last one.
        position = max(time.time_ns(), queue[-1][0] + 1 if queue else 0)
        with _explain_write_errors():
            write_text_atomic(jobs.job_folder(job.id) / "place", str(position), private=True)
        _save_job(replace(job, state="waiting", message=""))
    ensure_runner()


def ensure_runner() -> None:
    """Start a runner if jobs wait and none is running."""
    if _waiting_jobs() and running_job() is None:
        command = [sys.executable, "-m", "chemspec.ui.batch.job_queue", *PREDICT]
        quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        # In a session of its own: a Ctrl-C for the server is not for it. Of two that begin at once one ends at once.
        _runners.append(subprocess.Popen(command, start_new_session=True, **quiet))


def _is_runner_starting() -> bool:
    """Whether a runner that was started here lives; it may not hold the lock yet."""
    _runners[:] = [runner for runner in _runners if runner.poll() is None]
    return bool(_runners)


def stop_job(name: str) -> None:
    """Take a job out of the queue and end its prediction, if there is one; the rows on disk stay.

    Raises:
        JobError: if its folder cannot be written.
    """
    if view_job(name).active:
        _save_job(replace(jobs.load_job(name), state="stopped"))
        _terminate_prediction(name)


def _terminate_prediction(name: str) -> None:
    if (process := running_job()) and process.get("job") == name and "pid" in process:
        with suppress(ProcessLookupError):
            os.kill(process["pid"], signal.SIGTERM)


def delete_job(name: str, *, timeout: float = 60.0) -> None:
    """Stop a job and remove it with its files.

    Raises:
        JobError: if it cannot be removed.
    """
    with suppress(JobError):  # the disk may be full, or the job damaged
        stop_job(name)
    _terminate_prediction(name)
    _wait_until(lambda: (running_job() or {}).get("job") != name, timeout)
    jobs.delete_job(name)


def view_job(name: str) -> JobView:
    """Return a job with its current state.

    Raises:
        JobError: if there is none, or it cannot be read.
    """
    process, job = running_job(), jobs.load_job(name)  # in this order: what ends in between has written how
    if job.state not in ("waiting", "running"):  # earlier versions stored "running"
        return JobView(job, job.state)
    if process is None and not _is_runner_starting():
        if _answered_rows(job) == job.total:
            return JobView(replace(job, state="done"), "done")
        return JobView(job, "interrupted")
    if process and process.get("job") == name:
        return JobView(job, "running")
    queue = [other.id for other in _waiting_jobs()]
    if name in queue:
        return JobView(job, "waiting", queue.index(name))
    return JobView(job, "interrupted") if job.state == "running" else view_job(name)  # it has just ended


def _waiting_jobs() -> list[Job]:
    """Return the waiting jobs in the order of submission."""
    return [job for *_, job in _queued_jobs()]


def _queued_jobs() -> list[tuple[int, str, Job]]:
    """Return (queue position, id, job) of the waiting jobs, sorted."""
    waiting = []
    for folder in jobs.jobs_root().glob("*"):
        with suppress(JobError, OSError):
            job = jobs.load_job(folder.name)
            if job.state == "waiting":
                waiting.append((_queue_position(folder), job.id, job))
    return sorted(waiting, key=lambda entry: entry[:2])


def _queue_position(folder: Path) -> int:
    """Return a job's queue position as `submit_job` wrote it; earlier versions used the file's time."""
    with suppress(OSError, ValueError):
        return int((folder / "place").read_text(encoding="ascii"))
    return (folder / "job.json").stat().st_mtime_ns


def _answered_rows(job: Job) -> int:
    """Return how many rows are on disk."""
    path = jobs.answers_file(job)
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def _save_job(job: Job) -> None:
    with _explain_write_errors():
        jobs.save_job(job)


@contextmanager
def _explain_write_errors() -> Iterator[None]:
    """Say in words why a job's folder cannot be written."""
    try:
        yield
    except FileNotFoundError:
        raise JobError("the job was deleted meanwhile") from None
    except OSError as error:
        message = f"the job's folder cannot be written: {error.strerror or error}; make room and resume"
        raise JobError(message) from error


def _wait_until(ready: Callable[[], bool], timeout: float) -> None:
    end = time.monotonic() + timeout
    while not ready() and time.monotonic() < end:
        time.sleep(0.02)


# --- the lock --------------------------------------------------------------------------------------


@contextmanager
def _folder_lock(patience: float = 0.0) -> Iterator[IO[bytes] | None]:
    """Hold the lock of the folder; None if another process does."""
    with open_private(app_dir.folder() / "jobs.lock", "a+b") as file:
        free = False
        end = time.monotonic() + patience
        while not (free := _try_lock(file)) and time.monotonic() < end:
            time.sleep(0.01)  # maybe a server that looks whether it is free
        try:
            yield file if free else None
        finally:
            if free and fcntl:
                fcntl.flock(file, fcntl.LOCK_UN)


try:
    import fcntl
except ImportError:  # Windows, where a process that is started does not inherit the lock
    fcntl = None  # type: ignore[assignment]


def _try_lock(file: IO[bytes]) -> bool:
    """Take the lock of a file if it is free."""
    try:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            file.seek(1 << 30)  # beyond what is read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    return True


def running_job() -> dict[str, Any] | None:
    """Return what the lock file says of the running job (`job`, `pid`); None if none runs."""
    path = app_dir.folder() / "jobs.lock"
    try:
        if not path.exists():
            return None
        with _folder_lock() as file:
            if file is not None:
                return None
    except OSError:
        return None  # no runner can hold it either
    try:
        state = json.loads(path.read_bytes())
        return state if isinstance(state, dict) else {}
    except (OSError, ValueError):  # not written or half written
        return {}


def _write_lock_state(lock: IO[bytes], **facts: Any) -> None:
    with suppress(OSError):
        lock.truncate(0)  # what is written goes to the end
        lock.write(json.dumps(facts).encode())
        lock.flush()


# --- the runner ------------------------------------------------------------------------------------


def run_waiting_jobs(predict: Sequence[str] = PREDICT) -> None:
    """Run the waiting jobs; return when none is left, or if another runner holds the lock."""
    tried: set[str] = set()  # else a job whose end cannot be written would begin again and again

    def following() -> Job | None:
        return next((job for job in _waiting_jobs() if job.id not in tried), None)

    while following():  # checked again when the lock is free, for jobs submitted at the last moment
        with _folder_lock(patience=0.5) as lock:
            if lock is None:
                return
            while job := following():
                tried.add(job.id)
                state, message = _run_job(job, lock, predict)
                with suppress(JobError):
                    if state and jobs.load_job(job.id).state == "waiting":  # else stopped or deleted
                        _save_job(replace(job, state=state, message=message))
                    tried -= {job.id}


def _run_job(job: Job, lock: IO[bytes], predict: Sequence[str]) -> tuple[jobs.State, str]:
    """Predict what is left of a job, again after a crash; return how it ended and why."""
    for _ in range(MAX_CRASHES):
        code, outcome = _run_prediction(job, lock, predict)
        if code not in CRASHES:
            return outcome
        with suppress(JobError):
            if jobs.load_job(job.id).state == "waiting":
                continue
        return outcome
    return "failed", f"the prediction crashed {MAX_CRASHES} times (signal {-code}); resume to go on behind these rows"


def _run_prediction(job: Job, lock: IO[bytes], predict: Sequence[str]) -> tuple[int, tuple[jobs.State, str]]:
    """Predict what is left of a job once; return the process's exit code, how it ended and why."""
    log = jobs.job_folder(job.id) / "log"
    _write_lock_state(lock, job=job.id)
    try:
        with open_private(log, "wb") as output:
            process = subprocess.Popen(
                [*predict, job.id],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                umask=OTHERS_BITS,  # the files of answers are private, too
                pass_fds=(lock.fileno(),) if fcntl else (),
            )
    except OSError as error:
        return 1, ("failed", f"the prediction cannot be started: {error.strerror or error}; make room and resume")
    _write_lock_state(lock, job=job.id, pid=process.pid)
    try:
        if jobs.load_job(job.id).state != "waiting":  # stopped before there was anything to end
            process.terminate()
    except JobError:
        process.terminate()
    code = process.wait()
    if _answered_rows(job) == job.total:
        return 0, ("done", "")
    if code < 0:
        return code, ("failed", f"the prediction was ended by the system (signal {-code}); resume to try again")
    return code, ("failed", _last_error(log, job))


def _last_error(log: Path, job: Job) -> str:
    """Return the last error message of a prediction, without names of folders."""
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if lines and lines[-1].startswith("error: "):
            text = lines[-1].removeprefix("error: ").replace(str(jobs.answers_file(job)), "the file of answers")
            return text.replace(str(jobs.job_folder(job.id)), "the job's folder")
        if lines:
            return f"something unexpected happened ({lines[-1][:200]}); resume to try again"
    return "something unexpected happened; resume to try again"


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(NICE)
    run_waiting_jobs(sys.argv[1:])
