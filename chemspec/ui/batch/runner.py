"""Run the waiting jobs one at a time, each in a resumable `worker` process; `jobs.ensure_runner` starts it.

Both have a low priority, so that visitors at a page go first. A prediction ends with its runner: its standard input is
a pipe that the system closes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from chemspec.system.files import OTHERS_BITS, open_private
from chemspec.ui.batch import jobs
from chemspec.ui.batch.jobs import JOBS, Job, State
from chemspec.ui.common.store import StoreError

NICE = 10  # a tenth of the time that a visitor's request gets
BEAT_SECONDS = 0.5  # between two renewals of the lease; what it takes to stop a job
# A prediction that crashes is started again: it passes a row that has cost two of them.
CRASHES = {
    -getattr(signal, name) for name in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL") if hasattr(signal, name)
}
MAX_CRASHES = 30  # in a row, which pass ten rows at least


def run_waiting_jobs(predict: Sequence[str] = jobs.PREDICT, token: str = "") -> None:
    """Run the waiting jobs; return when none is left, or if another runner has the lease."""
    tried: set[str] = set()  # else a job whose end cannot be written would begin again and again

    def next_job() -> Job | None:
        return next((job for job in jobs.waiting_jobs() if job.id not in tried), None)

    token = token or jobs.take_lease()
    while token and jobs.renew_lease(token, ""):
        if job := next_job():
            tried.add(job.id)
            state, message = _run_job(job, predict, token)
            with suppress(StoreError):
                _end_job(job.id, state, message)
                tried.remove(job.id)
        else:
            jobs.end_lease(token)
            token = jobs.take_lease() if next_job() else ""  # submitted at the last moment


def _end_job(name: str, state: State, message: str) -> None:
    """Store how a job ended, unless it was stopped."""
    JOBS.change(name, lambda job: replace(job, state=state, message=message) if job.state == "waiting" else job)


def _run_job(job: Job, predict: Sequence[str], token: str) -> tuple[State, str]:
    """Predict what is left of a job, again after a crash; return how it ended and why."""
    for _ in range(MAX_CRASHES):
        code, *outcome = _run_prediction(job, predict, token)
        if code not in CRASHES or not _may_go_on(job, token):
            return outcome[0], outcome[1]
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
        return jobs.renew_lease(token, job.id, pid) and job.id in {other.id for other in jobs.waiting_jobs()}
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
