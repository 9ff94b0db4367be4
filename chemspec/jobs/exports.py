"""Exports of jobs, each made in a process of its own: SDF of 5,000 rows takes half a minute of Python."""

import os
import subprocess
import sys
from threading import BoundedSemaphore

from chemspec.jobs import rows
from chemspec.jobs.job_queue import NICE
from chemspec.jobs.jobs import JOBS, Job
from chemspec.jobs.store import StoreError

FORMATS = {"csv": rows.answers_as_csv, "xlsx": rows.answers_as_xlsx, "sdf": rows.answers_as_sdf}
OF_TARGETS = ("csv", "jsonl")  # formats of a job that plans routes, see `planned`
_FREE = BoundedSemaphore(2)  # exports of all visitors; further ones wait


def formats_of(job: Job) -> tuple[str, ...]:
    """Return the formats in which a job can be exported."""
    return OF_TARGETS if job.within else tuple(FORMATS)


def export_job(job: Job, kind: str) -> bytes:
    """Return the answers so far as a file of a kind of `formats_of` the job; raises StoreError if they are damaged."""
    with _FREE:
        command = [sys.executable, "-m", "chemspec.jobs.exports", job.id, kind]
        made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        raise StoreError(made.stderr.decode(errors="replace").strip()[-500:] or "the export failed; try again")
    return made.stdout


def main(name: str, kind: str) -> int:
    """Write an export to standard output."""
    if hasattr(os, "nice"):
        os.nice(NICE)
    try:
        job, made = JOBS.load(name), FORMATS
        if job.within:
            from chemspec.jobs import planned  # slow import

            made = planned.EXPORTS
        content = made[kind](job)
    except StoreError as error:
        sys.stderr.write(str(error))
        return 1
    sys.stdout.buffer.write(content)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
