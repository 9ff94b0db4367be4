"""A job on disk: a folder with what was asked, which a restarted server finds again.

    jobs/<id>/input.jsonl   the rows as uploaded, one JSON list a line
    jobs/<id>/queries.csv   their queries, which `chemspec predict` reads
    jobs/<id>/rows.jsonl    the answers so far, which it writes and resumes
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
from typing import Literal

import msgspec

from chemspec.settings import DecodeSettings, Task
from chemspec.system.files import make_private_folder, open_private, write_text_atomic
from chemspec.ui.common import app_dir
from chemspec.ui.common.uploads import Sheet

DAYS = 30  # a job is kept after its last change
MOST_JOBS = 200
MOST_BYTES = 2_000_000_000  # of all jobs together
KEEPING = (
    f"A job is kept for {DAYS} days after its last change, and a day more. If more than {MOST_JOBS} jobs or "
    f"{MOST_BYTES // 1_000_000_000} GB come together, jobs that have not changed for a day go first, oldest first."
)
State = Literal["waiting", "running", "stopped", "done", "failed"]  # "running" in jobs of earlier versions only
_ID = re.compile(r"[A-Za-z0-9_-]{22}")


class JobError(ValueError):
    """A job that cannot be found, read or kept; the message says why and what to do."""


@dataclass(frozen=True)
class Job:
    """What a job is about and how far it is.

    Attributes:
        file: the uploaded file as its owner called it.
        column: which of the columns holds the queries.
        digest: of the model that answers; another one may not go on with the job.
        created: seconds since 1970.
        state: "waiting" if it is to be worked at, see `job_queue`, else how the last attempt ended.
        message: why it failed.
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


def root() -> Path:
    """Return where the jobs lie; it need not be there."""
    return app_dir.folder() / "jobs"


def folder(job: str) -> Path:
    """Return the folder of a job; it need not be there.

    Raises:
        JobError: if the text is no job's id, whatever else it may be.
    """
    if not _ID.fullmatch(job):
        raise JobError("the link is not complete: it names no job; copy it again from where it was kept")
    return root() / job


def create(
    sheet: Sheet, *, file: str, column: int, model: str, digest: str, task: Task, settings: DecodeSettings
) -> Job:
    """Put a new job on disk; `job_queue.submit` starts it.

    Args:
        sheet: the uploaded rows.
        file: what their owner called the file.
        column: which of the columns holds the queries.
        model: name of the installed model.
        digest: of that model.
        task: what it predicts.
        settings: how to answer.

    Raises:
        JobError: if there is no room for it.
        AppDirError: if the folder for jobs cannot be written.
    """
    app_dir.app_dir()
    clean()
    name = secrets.token_urlsafe(16)
    job = Job(name, file[-200:], sheet.columns, column, model, digest, task, settings, len(sheet.rows), time.time())
    place = folder(name)
    try:
        make_private_folder(make_private_folder(root()) / name)
        with open_private(uploaded(job), "w", encoding="ascii") as lines:
            for row in sheet.rows:
                lines.write(json.dumps(row) + "\n")
            lines.flush()
            os.fsync(lines.fileno())
        save(job)
    except OSError as error:
        shutil.rmtree(place, ignore_errors=True)
        raise JobError(
            f"the job cannot be kept: {error.strerror or error}; make room on the disk and start again"
        ) from error
    return job


def save(job: Job) -> None:
    """Write a job's description: wholly or not at all."""
    write_text_atomic(folder(job.id) / "job.json", json.dumps(asdict(job)), private=True)


def load(name: str) -> Job:
    """Read a job by its id.

    Raises:
        JobError: if there is none, or it cannot be read.
    """
    path = folder(name) / "job.json"
    try:
        job = msgspec.convert(json.loads(path.read_text(encoding="ascii")), Job)
        if job.id != name or not 0 <= job.column < len(job.columns):
            raise ValueError("it is that of another job")
        return job
    except (FileNotFoundError, NotADirectoryError):
        raise JobError(
            f"there is no such job here; it was deleted, or not changed for {DAYS} days and then removed"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise JobError(f"the job's description cannot be read ({error}); delete the job") from error


def inputs(job: Job) -> list[tuple[str, ...]]:
    """Read the rows as uploaded."""
    with uploaded(job).open(encoding="ascii") as lines:
        return [tuple(json.loads(line)) for line in lines]


def uploaded(job: Job) -> Path:
    """Return the file of those rows."""
    return folder(job.id) / "input.jsonl"


def answers(job: Job) -> Path:
    """Return the file of the answers; it is there from the first part on."""
    return folder(job.id) / "rows.jsonl"


def delete(name: str) -> None:
    """Remove a job with all its files; nothing happens if it is gone.

    Raises:
        JobError: if it cannot be removed.
    """
    place = folder(name)
    gone = place.with_name(f"deleted-{name}")
    try:
        place.replace(gone)  # in one step: half a job must not be found
        shutil.rmtree(gone)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise JobError(f"the job cannot be deleted: {error.strerror or error}") from error


def clean(now: float | None = None) -> None:
    """Remove what `KEEPING` says.

    Raises:
        JobError: if there is still no room for another job.
    """
    now = time.time() if now is None else now
    for half in root().glob("deleted-*"):
        shutil.rmtree(half, ignore_errors=True)
    kept = sorted(_found())
    size, count = sum(size for _, size, _ in kept), len(kept)
    old = [place.name for changed, _, place in kept if now - changed > DAYS * 86_400]
    expired = app_dir.old_for_a_day(root(), old, now) if root().is_dir() else ()
    for changed, bytes_, place in kept:
        age = (now - changed) / 86_400
        if place.name in expired or (age > 1 and (size > MOST_BYTES or count >= MOST_JOBS)):
            with suppress(JobError):
                delete(place.name)
                size, count = size - bytes_, count - 1
    if size > MOST_BYTES or count >= MOST_JOBS:
        raise JobError("there is no room for another job; delete one that is no longer needed, or try again tomorrow")


def _found() -> list[tuple[float, int, Path]]:
    """(last change, bytes, folder) of every job, also of those that never became whole."""
    folders = []
    for place in root().glob("*"):
        with suppress(OSError):  # somebody deletes it meanwhile
            if _ID.fullmatch(place.name):
                facts = [file.stat() for file in (place, *place.iterdir())]
                changed = max(item.st_mtime for item in facts)
                folders.append((changed, sum(item.st_size for item in facts), place))
    return folders
