"""A job on disk: a folder with what was asked, which a restarted server finds again.

    jobs/<id>/input.jsonl   the rows as uploaded, one JSON list a line
    jobs/<id>/prices.json   the price list of the visitor who began it, if there was one
    jobs/<id>/rows.jsonl    the reviewed answers so far, which `worker` writes and resumes
    jobs/<id>/log           what it said
    jobs/<id>/place         its place in the queue, see `job_queue`
    jobs/<id>/job.json      everything else; written last and in one step, so that a folder with it is complete

The id is a secret: who knows it may see, stop and delete the job. Texts of visitors are content, never part of a path.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from chemspec.plan.prices import PriceList
from chemspec.settings import DecodeSettings, Task
from chemspec.system.files import make_private_folder, open_private, write_text_atomic
from chemspec.ui.common import app_dir
from chemspec.ui.common.uploads import Sheet

DAYS = 30  # a job is kept after its last change
MAX_JOBS = 200
MAX_BYTES = 2_000_000_000  # of all jobs together
KEEPING = (
    f"A job is kept for {DAYS} days after its last change, and a day more. If more than {MAX_JOBS} jobs or "
    f"{MAX_BYTES // 1_000_000_000} GB come together, jobs that have not changed for a day go first, oldest first."
)
State = Literal["waiting", "running", "stopped", "done", "failed"]  # "running" in jobs of earlier versions only
_ID = re.compile(r"[A-Za-z0-9_-]{22}")


class JobError(ValueError):
    """A job cannot be found, read or stored; the message says why and what to do."""


@dataclass(frozen=True)
class Job:
    """The description of a job and its state.

    Attributes:
        file: the uploaded file as its owner called it.
        column: which of the columns holds the queries.
        digest: of the model that answers; another one may not go on with the job.
        created: seconds since 1970.
        state: "waiting" if it is to be worked at, see `job_queue`, else how the last attempt ended.
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

    @property
    def answers(self) -> int:
        """The most answers of a row."""
        return self.cards or self.settings.n


def jobs_root() -> Path:
    """Return the folder of all jobs; it may not exist."""
    return app_dir.folder() / "jobs"


def job_folder(job: str) -> Path:
    """Return the folder of a job; it may not exist.

    Raises:
        JobError: if the text is no job's id, whatever else it may be.
    """
    if not _ID.fullmatch(job):
        raise JobError("the link is not complete: it names no job; copy it again")
    return jobs_root() / job


def create_job(sheet: Sheet, *, prices: PriceList | None = None, **facts: Any) -> Job:
    """Store a new job; `job_queue.submit_job` starts it.

    Args:
        sheet: the uploaded rows.
        prices: a price list of building blocks.
        facts: the other attributes of the job.

    Raises:
        JobError: if there is no room for it.
        AppDirError: if the folder for jobs cannot be written.
    """
    app_dir.ensure_app_dir()
    remove_old_jobs()
    name = secrets.token_urlsafe(16)
    facts["file"] = facts["file"][-200:]
    job = Job(id=name, columns=sheet.columns, total=len(sheet.rows), created=time.time(), **facts)
    path = job_folder(name)
    try:
        make_private_folder(make_private_folder(jobs_root()) / name)
        with open_private(uploaded_file(job), "w", encoding="ascii") as lines:
            for row in sheet.rows:
                lines.write(json.dumps(row) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
        if prices:
            write_text_atomic(prices_file(job), msgspec.json.encode(prices).decode(), private=True)
        save_job(job)
    except OSError as error:
        shutil.rmtree(path, ignore_errors=True)
        raise JobError(
            f"the job cannot be stored: {error.strerror or error}; make room on the disk and start again"
        ) from error
    return job


def save_job(job: Job) -> None:
    """Write a job's description atomically."""
    write_text_atomic(job_folder(job.id) / "job.json", json.dumps(asdict(job)), private=True)


def load_job(name: str) -> Job:
    """Read a job by its id.

    Raises:
        JobError: if there is none, or it cannot be read.
    """
    path = job_folder(name) / "job.json"
    try:
        job = msgspec.convert(json.loads(path.read_text(encoding="ascii")), Job)
        if job.id != name or not 0 <= job.column < len(job.columns):
            raise ValueError("it is that of another job")
        return job
    except (FileNotFoundError, NotADirectoryError):
        raise JobError(f"job not found: it was deleted or has expired ({DAYS} days without changes)") from None
    except (OSError, ValueError, RecursionError) as error:
        raise JobError(f"the job's description cannot be read ({error}); delete the job") from error


def uploaded_rows(job: Job) -> list[tuple[str, ...]]:
    """Read the rows as uploaded."""
    with uploaded_file(job).open(encoding="ascii") as lines:
        return [tuple(json.loads(line)) for line in lines]


def uploaded_file(job: Job) -> Path:
    """Return the file of those rows."""
    return job_folder(job.id) / "input.jsonl"


def prices_file(job: Job) -> Path:
    """Return the file of the visitor's price list; it may not exist."""
    return job_folder(job.id) / "prices.json"


def answers_file(job: Job) -> Path:
    """Return the file of the answers; it exists once the first rows are answered."""
    return job_folder(job.id) / "rows.jsonl"


def delete_job(name: str) -> None:
    """Remove a job with all its files; nothing happens if it is gone.

    Raises:
        JobError: if it cannot be removed.
    """
    path = job_folder(name)
    gone = path.with_name(f"deleted-{name}")
    try:
        path.replace(gone)  # in one step: half a job must not be found
        shutil.rmtree(gone)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise JobError(f"the job cannot be deleted: {error.strerror or error}") from error


def remove_old_jobs(now: float | None = None) -> None:
    """Remove expired jobs, and old ones where too many are stored (`KEEPING`).

    Raises:
        JobError: if there is still no room for another job.
    """
    now = time.time() if now is None else now
    for half in jobs_root().glob("deleted-*"):
        shutil.rmtree(half, ignore_errors=True)
    folders = sorted(_job_folders())
    size, count = sum(size for _, size, _ in folders), len(folders)
    old = [path.name for changed, _, path in folders if now - changed > DAYS * 86_400]
    expired = app_dir.expired_for_a_day(jobs_root(), old, now) if jobs_root().is_dir() else ()
    for changed, bytes_, path in folders:
        age = (now - changed) / 86_400
        if path.name in expired or (age > 1 and (size > MAX_BYTES or count >= MAX_JOBS)):
            with suppress(JobError):
                delete_job(path.name)
                size, count = size - bytes_, count - 1
    if size > MAX_BYTES or count >= MAX_JOBS:
        raise JobError("there is no room for another job; delete one that is no longer needed, or try again tomorrow")


def _job_folders() -> list[tuple[float, int, Path]]:
    """(last change, bytes, folder) of every job, also of those that never became whole."""
    folders = []
    for path in jobs_root().glob("*"):
        with suppress(OSError):  # deleted in between
            if _ID.fullmatch(path.name):
                facts = [file.stat() for file in (path, *path.iterdir())]
                changed = max(item.st_mtime for item in facts)
                folders.append((changed, sum(item.st_size for item in facts), path))
    return folders
