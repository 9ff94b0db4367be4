"""Work through the jobs of a folder, one at a time, each as a resumable `chemspec predict FILE -o OUT` process.

A server writes jobs to disk and starts one detached process, the runner, which starts the predictions; both have a
low priority, so that visitors at a page go first. A server may end at any time, the jobs go on.

    jobs.lock   locked by whoever works in this folder, and by the prediction that it started: the system frees it when
                both have ended, however they end; it holds the id of the job at work and the prediction's process id
    jobs/<id>/place   when the job was submitted, in nanoseconds since 1970: the queue is in this order

A job whose stored state is "waiting" is to be worked at. It is running if the lock is held for it, and was interrupted
if nobody holds the lock.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from chemspec.io.writers import single_line
from chemspec.settings import DecodeSettings
from chemspec.system.files import OTHERS_BITS, open_private, write_text_atomic
from chemspec.system.threads import usable_cores
from chemspec.ui.batch import jobs
from chemspec.ui.batch.jobs import Job, JobError
from chemspec.ui.common import app_dir

MOST_WAITING = 20
PREDICT = (sys.executable, "-m", "chemspec.cli", "predict")
NICE = 10  # a tenth of the time that a visitor's work gets beside it
WRITE_EVERY = 16  # rows; what a prediction that is killed has to do again at most
# A prediction that crashes is started again: it passes a row that has cost two of them.
CRASHES = {
    -getattr(signal, name) for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL") if hasattr(signal, name)
}
MOST_CRASHES = 30  # in a row, which pass ten rows at least
LONGEST_CELL = csv.field_size_limit()
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
        """Whether it will go on without anybody's doing."""
        return self.state in ("waiting", "running")


def submit(job: Job, digest: str) -> None:
    """Put a job at the end of the queue, to begin or to go on; do nothing if it is there already.

    Args:
        job: as it is on disk.
        digest: of the installed model of the job's name.

    Raises:
        JobError: if too many wait, another model would answer, or its folder cannot be written.
    """
    if digest != job.digest:
        raise JobError(f"the model {job.model} is not the one that this job began with; start a new job with the file")
    if not view(job.id).active:
        queue = _queue()
        if len(queue) > MOST_WAITING:
            raise JobError(f"{MOST_WAITING} jobs wait already; try again later")
        # Behind all others, also where the clock was set back or has not moved since the last one.
        place = max(time.time_ns(), queue[-1][0] + 1 if queue else 0)
        with _said():
            write_text_atomic(jobs.folder(job.id) / "place", str(place), private=True)
        _save(replace(job, state="waiting", message=""))
    resume()


def resume() -> None:
    """Start a runner if jobs wait and none is at work."""
    if _waiting() and at_work() is None:
        command = [sys.executable, "-m", "chemspec.ui.batch.job_queue", *PREDICT]
        quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        # In a session of its own: a Ctrl-C for the server is not for it. Of two that begin at once one ends at once.
        _runners.append(subprocess.Popen(command, start_new_session=True, **quiet))


def _beginning() -> bool:
    """Whether a runner that was started here lives; it may not hold the lock yet."""
    _runners[:] = [runner for runner in _runners if runner.poll() is None]
    return bool(_runners)


def stop(name: str) -> None:
    """Take a job out of the queue and end its prediction, if there is one; the rows on disk stay.

    Raises:
        JobError: if its folder cannot be written.
    """
    if view(name).active:
        _save(replace(jobs.load(name), state="stopped"))
        _terminate(name)


def _terminate(name: str) -> None:
    if (process := at_work()) and process.get("job") == name and "pid" in process:
        with suppress(ProcessLookupError):
            os.kill(process["pid"], signal.SIGTERM)


def delete(name: str, *, timeout: float = 60.0) -> None:
    """Stop a job and remove it with its files.

    Raises:
        JobError: if it cannot be removed.
    """
    with suppress(JobError):  # the disk may be full, or the job damaged
        stop(name)
    _terminate(name)
    _until(lambda: (at_work() or {}).get("job") != name, timeout)
    jobs.delete(name)


def view(name: str) -> JobView:
    """Return how a job stands.

    Raises:
        JobError: if there is none, or it cannot be read.
    """
    process, job = at_work(), jobs.load(name)  # in this order: what ends in between has written how
    if job.state not in ("waiting", "running"):  # earlier versions stored "running"
        return JobView(job, job.state)
    if process is None and not _beginning():
        if _answered(job) == job.total:
            return JobView(replace(job, state="done"), "done")
        return JobView(job, "interrupted")
    if process and process.get("job") == name:
        return JobView(job, "running")
    queue = [other.id for other in _waiting()]
    if name in queue:
        return JobView(job, "waiting", queue.index(name))
    return JobView(job, "interrupted") if job.state == "running" else view(name)  # it has just ended


def _waiting() -> list[Job]:
    """Return the jobs to be worked at, in the order in which they were submitted."""
    return [job for *_, job in _queue()]


def _queue() -> list[tuple[int, str, Job]]:
    """Return the places of these jobs, their ids and the jobs, in that order."""
    waiting = []
    for folder in jobs.root().glob("*"):
        with suppress(JobError, OSError):
            job = jobs.load(folder.name)
            if job.state == "waiting":
                waiting.append((_place(folder), job.id, job))
    return sorted(waiting, key=lambda entry: entry[:2])


def _place(folder: Path) -> int:
    """Return where a job stands in the queue, as `submit` wrote it; earlier versions went by the time of the file."""
    with suppress(OSError, ValueError):
        return int((folder / "place").read_text(encoding="ascii"))
    return (folder / "job.json").stat().st_mtime_ns


def _answered(job: Job) -> int:
    """Return how many rows are on disk."""
    path = jobs.answers(job)
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def _save(job: Job) -> None:
    with _said():
        jobs.save(job)


@contextmanager
def _said() -> Iterator[None]:
    """Say in words why a job's folder cannot be written."""
    try:
        yield
    except FileNotFoundError:
        raise JobError("the job was deleted meanwhile") from None
    except OSError as error:
        message = f"the job's folder cannot be written: {error.strerror or error}; make room and resume"
        raise JobError(message) from error


def _until(ready: Callable[[], bool], timeout: float) -> None:
    end = time.monotonic() + timeout
    while not ready() and time.monotonic() < end:
        time.sleep(0.02)


# --- the lock --------------------------------------------------------------------------------------


@contextmanager
def _locked(patience: float = 0.0) -> Iterator[IO[bytes] | None]:
    """Hold the lock of the folder; None if somebody else does."""
    with open_private(app_dir.folder() / "jobs.lock", "a+b") as file:
        free = False
        end = time.monotonic() + patience
        while not (free := _take(file)) and time.monotonic() < end:
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


def _take(file: IO[bytes]) -> bool:
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


def at_work() -> dict[str, Any] | None:
    """Return what the holder of the lock has told of itself (`job`, `pid`); None if nobody holds it."""
    path = app_dir.folder() / "jobs.lock"
    try:
        if not path.exists():
            return None
        with _locked() as file:
            if file is not None:
                return None
    except OSError:
        return None  # nobody can
    try:
        told = json.loads(path.read_bytes())
        return told if isinstance(told, dict) else {}
    except (OSError, ValueError):  # not written or half written
        return {}


def _tell(lock: IO[bytes], **facts: Any) -> None:
    with suppress(OSError):
        lock.truncate(0)  # what is written goes to the end
        lock.write(json.dumps(facts).encode())
        lock.flush()


# --- the runner ------------------------------------------------------------------------------------


def work(predict: Sequence[str] = PREDICT) -> None:
    """Work through the jobs that wait and return when there are none left, or if somebody else is at it."""
    tried: set[str] = set()  # else a job whose end cannot be written would begin again and again

    def following() -> Job | None:
        return next((job for job in _waiting() if job.id not in tried), None)

    while following():  # asked again when the lock is free, for what was submitted at the last moment
        with _locked(patience=0.5) as lock:
            if lock is None:
                return
            while job := following():
                tried.add(job.id)
                state, message = _run(job, lock, predict)
                with suppress(JobError):
                    if state and jobs.load(job.id).state == "waiting":  # else stopped or deleted
                        _save(replace(job, state=state, message=message))
                    tried -= {job.id}


def _run(job: Job, lock: IO[bytes], predict: Sequence[str]) -> tuple[jobs.State, str]:
    """Predict what is left of a job, again after a crash; return how it ended and why."""
    for _ in range(MOST_CRASHES):
        code, told = _predict(job, lock, predict)
        if code not in CRASHES:
            return told
        with suppress(JobError):
            if jobs.load(job.id).state == "waiting":
                continue
        return told
    return "failed", f"the prediction crashed {MOST_CRASHES} times (signal {-code}); resume to go on behind these rows"


def _predict(job: Job, lock: IO[bytes], predict: Sequence[str]) -> tuple[int, tuple[jobs.State, str]]:
    """Predict what is left of a job once; return the process's exit code, how it ended and why."""
    log = jobs.folder(job.id) / "log"
    _tell(lock, job=job.id)
    try:
        with open_private(log, "wb") as output:
            process = subprocess.Popen(
                [*predict, *_words(job)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                umask=OTHERS_BITS,  # the files of answers are private, too
                pass_fds=(lock.fileno(),) if fcntl else (),
            )
    except OSError as error:
        return 1, ("failed", f"the prediction cannot be started: {error.strerror or error}; make room and resume")
    except ValueError as error:
        return 1, ("failed", f"the uploaded rows cannot be read ({error}); start a new job with the file")
    _tell(lock, job=job.id, pid=process.pid)
    try:
        if jobs.load(job.id).state != "waiting":  # stopped before there was anything to end
            process.terminate()
    except JobError:
        process.terminate()
    code = process.wait()
    if _answered(job) == job.total:
        return 0, ("done", "")
    if code < 0:
        return code, ("failed", f"the prediction was ended by the system (signal {-code}); resume to try again")
    return code, ("failed", _complaint(log, job))


def _words(job: Job) -> list[str]:
    """Return the arguments of `chemspec predict` for a job."""
    default = DecodeSettings()
    chosen = {name: value for name, value in asdict(job.settings).items() if value != getattr(default, name)}
    chosen |= {"decoder": job.settings.decoder, "n": job.settings.n, "task": job.task, "model": job.model}
    chosen |= {"threads": max(1, usable_cores() // 2), "write_every": WRITE_EVERY, "out": jobs.answers(job)}
    options = [word for name, value in chosen.items() for word in ("--" + name.replace("_", "-"), str(value))]
    return [str(_queries(job)), "--exact" if job.settings.exact else "--relaxed", *options]


def _queries(job: Job) -> Path:
    """Write the file that the prediction reads."""
    texts = [row[job.column] for row in jobs.inputs(job)]
    path = jobs.folder(job.id) / "queries.csv"
    if max(map(len, texts)) > LONGEST_CELL:  # then they were the lines of a list
        path = path.with_suffix(".txt")
    with open_private(path, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        if path.suffix == ".txt":
            file.writelines(single_line(text) + "\n" for text in texts)
        else:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([["smiles"], *([text] for text in texts)])
    return path


def _complaint(log: Path, job: Job) -> str:
    """Return what a prediction said last, without the names of our folders."""
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if lines and lines[-1].startswith("error: "):
            text = lines[-1].removeprefix("error: ").replace(str(jobs.answers(job)), "the file of answers")
            return text.replace(str(jobs.folder(job.id)), "the job's folder")
        if lines:
            return f"something unexpected happened ({lines[-1][:200]}); resume to try again"
    return "something unexpected happened; resume to try again"


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(NICE)
    work(sys.argv[1:])
