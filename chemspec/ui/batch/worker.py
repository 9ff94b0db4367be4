"""The thread that works through jobs, one after the other and a small part at a time, so that visitors at a page go
first.

What it knows is lost with the server; what it did is on disk (`jobs`), all but the part under way.
"""

from __future__ import annotations

import atexit
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Protocol

from chemspec.io import writers
from chemspec.io.readers import FileError
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.batch import jobs
from chemspec.ui.batch.jobs import Job, JobError
from chemspec.ui.common.turns import Turns

AIM = 0.4  # seconds that a part may take: so long waits a visitor who comes in between
MOST_WAITING = 20


class Model(Protocol):
    """What a job needs of an engine."""

    digest: str
    dtype: str

    def predict(
        self, queries: Sequence[str], settings: DecodeSettings, *, progress: Callable[[int], None]
    ) -> list[DecodeResult]: ...


class Stopped(Exception):
    """Somebody asked the job to stop."""


class Busy(JobError):
    """The job is another server's."""


@dataclass(frozen=True)
class View:
    """A job as a visitor sees it.

    Attributes:
        state: as stored, or "interrupted" where a server ended before the job did.
        ahead: jobs that come first, while it waits.
        done: rows answered, as far as the worker knows; None where only the disk does.
        left: seconds until it is done, if that can be told.
    """

    job: Job
    state: str
    ahead: int = 0
    done: int | None = None
    left: float | None = None

    @property
    def active(self) -> bool:
        return self.state in ("waiting", "running")


class QueuedEngine:
    """An engine that waits for its turn with every part, can be stopped, and outlives a query that breaks it."""

    def __init__(self, model: Model, turns: Turns, check: Callable[[], None]) -> None:
        self.digest, self.dtype = model.digest, model.dtype
        self._model, self._turns, self._check = model, turns, check
        self._seconds = AIM  # a query; the first part is one query

    def size(self, most: int) -> int:
        """How many queries the next part may have."""
        return max(1, min(most, int(AIM / self._seconds)))

    def predict(
        self, queries: Sequence[str], settings: DecodeSettings, *, progress: Callable[[int], None]
    ) -> list[DecodeResult]:
        self._check()
        with self._turns.turn(patient=True, waiting=lambda _: self._check()):
            began = time.monotonic()
            results = self._predict(queries, settings)
            self._seconds = max(1e-6, time.monotonic() - began) / len(queries)
        progress(len(results))
        return results

    def _predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        try:
            return self._model.predict(queries, settings, progress=lambda _: None)
        except Exception as error:
            logging.getLogger(__name__).exception("a model failed on %d queries", len(queries))
            if len(queries) == 1:
                message = f"the model failed on this row ({type(error).__name__})"
                return [DecodeResult(queries[0], "failed", message)]
            return [result for query in queries for result in self._predict([query], settings)]


class Worker:
    """A queue of jobs and the thread that empties it."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._changed = Condition()
        self._line: list[tuple[str, Model]] = []  # the first is at work
        self._stopping: set[str] = set()
        self._unsaved: dict[str, str] = {}  # what became of jobs whose folder cannot be written
        self._done, self._began, self._first = 0, 0.0, 0  # of the one at work
        self._closed = False
        self._thread = Thread(target=self._work, name="jobs", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def submit(self, job: Job, model: Model) -> None:
        """Put a job at the end of the queue, to begin or to go on; nothing happens if it is there already.

        Raises:
            JobError: if too many wait, another model would answer, or its folder cannot be written.
        """
        if model.digest != job.digest:
            raise JobError(
                f"the model {job.model} is not the one that this job began with; start a new job with the file"
            )
        with self._changed:
            if self._place(job.id) is not None:
                return
            if len(self._line) > MOST_WAITING:
                raise JobError(f"{MOST_WAITING} jobs wait already; try again later")
            self._save(replace(job, state="waiting", message=""))
            self._line.append((job.id, model))
            self._changed.notify_all()

    def stop(self, name: str) -> None:
        """Take a job out of the queue; one at work stops when the part under way is done."""
        with self._changed:
            place = self._place(name)
            if place == 0:
                self._stopping.add(name)
            elif place is not None:
                self._line = [item for item in self._line if item[0] != name]
                self._save(replace(jobs.load(name), state="stopped"))

    def delete(self, name: str, *, timeout: float = 60.0) -> None:
        """Stop a job and remove it with its files.

        Raises:
            JobError: if it cannot be removed.
        """
        self.stop(name)
        with self._changed:
            self._changed.wait_for(lambda: self._place(name) is None, timeout)
        jobs.delete(name)
        self._unsaved.pop(name, None)

    def view(self, name: str) -> View:
        """How a job stands.

        Raises:
            JobError: if there is none, or it cannot be read.
        """
        with self._changed:
            place, job = self._place(name), jobs.load(name)
            if place == 0:
                return View(job, "running", done=self._done, left=self._left(job.total))
            if place is not None:
                return View(job, "waiting", ahead=place)
            if name in self._unsaved:
                return View(replace(job, message=self._unsaved[name]), "failed")
            return View(job, "interrupted" if job.state in ("waiting", "running") else job.state)

    def close(self) -> None:
        """Let the thread end after the part under way; what is not done counts as interrupted."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(5)

    def _place(self, name: str) -> int | None:
        return next((k for k, (other, _) in enumerate(self._line) if other == name), None)

    def _left(self, total: int) -> float | None:
        done, spent = self._done - self._first, time.monotonic() - self._began
        return spent / done * (total - self._done) if done and spent > 1 else None

    def _save(self, job: Job) -> None:
        try:
            jobs.save(job)
            self._unsaved.pop(job.id, None)
        except FileNotFoundError:
            raise JobError("the job was deleted meanwhile") from None
        except OSError as error:
            raise JobError(
                f"the job's folder cannot be written: {error.strerror or error}; make room and resume"
            ) from error

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._line or self._closed)
                if self._closed:
                    return
                name, model = self._line[0]
                self._done, self._began, self._first = 0, time.monotonic(), -1
            state, message = self._finish(name, model)
            with self._changed:
                if state:
                    self._note(name, state, message)
                self._line.pop(0)
                self._stopping.discard(name)
                self._changed.notify_all()

    def _finish(self, name: str, model: Model) -> tuple[jobs.State | None, str]:
        """Work at a job till it ends; returns how, or nothing where the server ends first."""
        try:
            job = jobs.load(name)
            with _alone(jobs.folder(name)):
                self._save(replace(job, state="running"))
                self._answer(job, model)
        except Stopped:
            return (None if self._closed else "stopped"), ""
        except Busy as error:  # then its state is not ours to write
            self._unsaved[name] = str(error)
            return None, ""
        except FileError as error:
            return "failed", str(error).replace(str(jobs.answers(job)), "the file of answers")
        except JobError as error:
            return "failed", str(error)
        except Exception as error:  # the thread must outlive whatever happens to one job
            logging.getLogger(__name__).exception("job %s", name)
            return ("failed", f"something unexpected happened ({type(error).__name__}); resume to try again")
        return "done", ""

    def _answer(self, job: Job, model: Model) -> None:
        def check() -> None:
            if self._closed or job.id in self._stopping:
                raise Stopped

        def progress(done: int, _: int) -> None:
            with self._changed:
                self._done = done
                if self._first < 0:  # what an earlier run did says nothing about this one's pace
                    self._first, self._began = done, time.monotonic()

        guest: Any = QueuedEngine(model, self._turns, check)
        queries = [row[job.column] for row in jobs.inputs(job)]
        writers.predict_file(
            guest,
            queries,
            jobs.answers(job),
            job.settings,
            every=lambda: guest.size(job.settings.batch_size),
            progress=progress,
        )

    def _note(self, name: str, state: jobs.State, message: str) -> None:
        try:
            self._save(replace(jobs.load(name), state=state, message=message))
        except JobError as error:
            self._unsaved[name] = message or str(error)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a job against other servers that share the folder; the system lets go of it when a server dies."""
    try:
        import fcntl
    except ImportError:  # Windows: there it is up to the owner not to start two
        yield
        return
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy("another server on this machine works at this job") from None
        yield
