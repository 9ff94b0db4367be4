"""Jobs of the page Batch, as they are stored; `job_queue` runs them.

jobs/<id>/input.jsonl   the rows as uploaded, one JSON list a line
jobs/<id>/prices.json   the price list of the visitor who began it, if there was one
jobs/<id>/rows.jsonl    the reviewed answers or the planned targets so far, which `worker` writes and resumes
jobs/<id>/log           what it said
jobs/<id>/work/         of a job that fine-tunes a model: data, measurements, checkpoints
"""

import json
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from chemspec.jobs import store
from chemspec.jobs.store import Documents, NoRoomError, StoreError
from chemspec.settings import DecodeSettings, Task
from chemspec.system.files import write_text_atomic

if TYPE_CHECKING:  # the runner needs neither, nor RDKit
    from chemspec.jobs.uploads import Sheet
    from chemspec.stock.offers import PriceList

State = Literal["waiting", "stopped", "done", "failed"]
# Limits of a job that plans routes, so that the next one need not wait for days.
MAX_TARGETS = 5_000
MAX_WITHIN = 15.0  # seconds for each target
MAX_PLANNING = 25_000.0  # seconds for all targets together, as on one core


@dataclass(frozen=True)
class Job:
    """The description of a job and its state."""

    id: str
    file: str  # the uploaded file as its owner called it
    columns: tuple[str, ...]
    column: int  # number of the column with the queries
    model: str
    digest: str  # digest of the model that answers; another one may not go on with the job
    task: Task
    settings: DecodeSettings
    total: int
    created: float  # seconds since 1970
    state: State = "stopped"  # "waiting" if it is to be worked at, else how the last attempt ended
    message: str = ""  # why it failed
    cards: int = 5  # answers of a row, each of which may stand for several predictions
    stock: tuple[str, ...] = ()  # names of the built-in lists of building blocks
    fine_tune: str = ""  # a job that fine-tunes its model on its rows: the name of the new model
    within: float = 0.0  # a job that plans routes: seconds for each target

    def __post_init__(self) -> None:
        if not 0 <= self.column < len(self.columns):
            raise ValueError("its column of queries is missing")
        if self.within and (problem := planning_problem(self.total, self.within)):
            raise ValueError(problem)


def planning_problem(targets: int, within: float) -> str:
    """Return which limit a job that plans routes would exceed, with `within` seconds for each target; else nothing."""
    if targets > MAX_TARGETS:
        return f"the file has {targets:,} targets; {MAX_TARGETS:,} are the limit, so split it"
    if not 0 < within <= MAX_WITHIN:
        return f"{within:g} s for each target; more than 0 and at most {MAX_WITHIN:g} are possible"
    if targets * within > MAX_PLANNING:
        return f"{targets:,} targets of {within:g} s each; all together may take {MAX_PLANNING:,.0f} s"
    return ""


JOBS = Documents(
    "jobs", "job", Job, days=30, most=1000, most_bytes=2e9, idle=3600.0, in_use=lambda job: job.state == "waiting"
)
KEEPING = (
    f"A job is kept for {JOBS.days} days after its last change, and a day more. If more than {JOBS.most:,} jobs or "
    f"{JOBS.most_bytes / 1e9:.0f} GB come together, those that ended more than an hour ago go first, oldest first."
)


def create_job(sheet: "Sheet", *, prices: "PriceList | None" = None, **facts: Any) -> Job:
    """Store a new job; `job_queue.submit_job` starts it.

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
        if isinstance(error, NoRoomError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"the job cannot be stored: {reason}; make room on the disk and start again") from error
    return job


def end_job(name: str, state: State, message: str = "") -> None:
    """Store how a waiting job ended; raises StoreError if it was deleted, or the store cannot be written."""
    JOBS.change(name, lambda job: replace(job, state=state, message=message) if job.state == "waiting" else job)


def uploaded_rows(job: Job) -> list[tuple[str, ...]]:
    """Read the rows as uploaded; raises StoreError if some are missing."""
    with uploaded_file(job).open(encoding="ascii") as lines:
        rows = [tuple(json.loads(line)) for line in lines]
    if len(rows) != job.total:
        message = f"the job's file of uploaded rows is damaged: it has {len(rows)} rows, not {job.total}"
        raise StoreError(f"{message}; start a new job with the file")
    return rows


def uploaded_file(job: Job) -> Path:
    """Return the file of those rows."""
    return JOBS.folder(job.id) / "input.jsonl"


def prices_file(job: Job) -> Path:
    """Return the file of the visitor's price list; it may not exist."""
    return JOBS.folder(job.id) / "prices.json"


def work_folder(job: Job) -> Path:
    """Return the work folder of a job that fine-tunes a model."""
    return JOBS.folder(job.id) / "work"


def answers_file(job: Job) -> Path:
    """Return the file of the answers; it exists once the first rows are answered."""
    return JOBS.folder(job.id) / "rows.jsonl"
