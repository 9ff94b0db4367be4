"""Let the disk be full from the n-th write on, for every n in turn: `nth_write.py NAME FOLDER`, under faulty_disk.c.

Each store is asked to keep something in a fork with a full disk. If it says that it did, it is there; if it raises, it
says why; what was kept before is there in any case, and once there is room the same call works.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chemspec.io import writers
from chemspec.io.readers import FileError
from chemspec.jobs import jobs
from chemspec.jobs.jobs import JOBS
from chemspec.jobs.store import StoreError
from chemspec.jobs.uploads import Sheet
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.collect.answers import ANSWERS, SavedAnswer

HOW = DecodeSettings(decoder="greedy", n=1)
QUERIES = ("CCO", "CCN", "CCC", "CCF")
TOLD = (OSError, StoreError, FileError)


@dataclass
class Case:
    """A store: what is done beforehand, what is done with a full disk, and what has to be true after it."""

    before: Callable[[], Any]
    work: Callable[[Any], None]
    check: Callable[[Any, bool], None]


class Echo:
    """As much of an engine as `predict_file` needs."""

    full_digest, dtype = "d", "fp32"

    def predict(self, queries: Any, settings: Any, *, progress: Any) -> list[DecodeResult]:
        return [DecodeResult(query, "invalid", "no") for query in queries]


def new_job() -> jobs.Job:
    sheet = Sheet(("smiles",), tuple((query,) for query in QUERIES))
    return jobs.create_job(sheet, file="f", column=0, model="m", digest="d", task="retro", settings=HOW)


def every_job() -> list[jobs.Job]:
    """All jobs that a visitor can find; each is whole."""
    found = list(JOBS.all().values())
    assert all(jobs.uploaded_rows(job) == [(query,) for query in QUERIES] for job in found)
    return found


def check_created(first: jobs.Job, done: bool) -> None:
    assert first in every_job() and (not done or len(every_job()) == 2)


def check_saved(first: jobs.Job, done: bool) -> None:
    (found,) = every_job()
    assert found.state == "done" if done else found.state in ("stopped", "done")


def answer(job: jobs.Job) -> None:
    engine: Any = Echo()
    writers.predict_file(engine, QUERIES, jobs.answers_file(job), HOW, every=1)


def check_answered(job: jobs.Job, done: bool) -> None:
    answer(job)
    lines = jobs.answers_file(job).read_text().splitlines()
    assert [query in line for query, line in zip(QUERIES, lines, strict=True)] == [True] * len(QUERIES)


def kept(folder: Path) -> Case:
    answers = replace(ANSWERS, home=folder)

    def check(_: Any, done: bool) -> None:
        names = {one.question for one in answers.all().values()}
        assert names == {"first", "second"} if done else "first" in names

    def save(name: str, answer: str) -> None:
        saved = SavedAnswer(name, "retro", "m", "C", answer)
        answers.save(saved.id, saved)

    return Case(lambda: save("first", "N"), lambda _: save("second", "N" * 3000), check)


CASES: dict[str, Callable[[Path], Case]] = {
    "a new job": lambda _: Case(new_job, lambda _: new_job() and None, check_created),
    "a state": lambda _: Case(new_job, lambda job: JOBS.save(job.id, replace(job, state="done")), check_saved),
    "answers": lambda _: Case(new_job, answer, check_answered),
    "collections": kept,
}


def in_fork(work: Callable[[], None]) -> int:
    """0 where it is done, 3 where it says why not, and 5 for anything else."""
    if not (child := os.fork()):
        try:
            work()
        except TOLD as error:
            os._exit(3 if str(error) else 4)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(5)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def sweep(name: str, home: Path) -> tuple[int, int]:
    """Return at how many writes a disk became full, and how often that was told."""
    disk, failed = ctypes.CDLL(None), 0
    for room in range(500):
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(mode=0o700)
        case = CASES[name](home)
        given = case.before()

        def full(room: int = room, case: Case = case, given: Any = given) -> None:
            disk.full_disk_after(ctypes.c_long(room))
            case.work(given)

        code = in_fork(full)
        assert code in (0, 3), f"{name}: exit code {code} with room for {room} writes"
        assert in_fork(lambda case=case, given=given, code=code: case.check(given, code == 0)) == 0, f"{name}: {room}"
        again = in_fork(lambda case=case, given=given: case.work(given))
        assert again == 0, f"{name}: {again} once there is room, after {room} writes"
        failed += code == 3

        def counted(case: Case = case, given: Any = given, room: int = room) -> None:
            disk.full_disk_after(ctypes.c_long(-1))
            case.work(given)
            os._exit(0 if disk.disk_changes() > room else 6)

        if code == 0 and in_fork(counted) == 6:  # there was room for all of it
            return room, failed
    raise AssertionError(f"{name}: no end")


if __name__ == "__main__":
    os.environ["CHEMSPEC_HOME"] = sys.argv[2]
    print(*sweep(sys.argv[1], Path(sys.argv[2])))
