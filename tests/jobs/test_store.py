"""The store: the files of earlier versions are taken over, once, and nothing of them is lost."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.small import JOB_ROW

pytest.importorskip("streamlit")

from chemspec.jobs import job_queue, jobs, rows, store
from chemspec.jobs.jobs import JOBS
from chemspec.jobs.store import StoreError
from chemspec.jobs.uploads import Sheet
from chemspec.settings import DecodeSettings
from chemspec.ui.collect.answers import ANSWERS

FIRST, SECOND, BROKEN = "f" * 22, "B-_" + "b" * 19, "x" * 22
HOW = {"decoder": "beam", "n": 3, "drafter": "auto", "max_len": 200, "batch_size": 16, "node_budget": 256}


def write(path: Path, content: str | dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def old_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home as version 0.2 and the first commits of 0.3 left it."""
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    job = {"file": "a.csv", "columns": ["smiles"], "column": 0, "model": "retro", "digest": "d1", "task": "retro",
           "settings": HOW, "total": 2, "created": 1795681827.2, "message": ""}  # fmt: skip
    for name, state in ((SECOND, "running"), (FIRST, "waiting")):
        write(tmp_path / "jobs" / name / "job.json", {"id": name, **job, "state": state})
        write(tmp_path / "jobs" / name / "input.jsonl", '["CCO"]\n["CN"]\n')
        write(tmp_path / "jobs" / name / "rows.jsonl", json.dumps(JOB_ROW) + "\n")
    write(tmp_path / "jobs" / BROKEN / "job.json", '{"id": 3')
    write(tmp_path / "jobs" / "old.json", "{}")
    with closing(sqlite3.connect(tmp_path / "collections.sqlite3")) as base, base:
        base.execute(
            "CREATE TABLE kept (number INTEGER PRIMARY KEY, question, task, model, query, answer, label, chance, note, "
            "status, added)"
        )
        values = ("q", "retro", "retro", "CCO", "CC.O", "Amide", 0.4, "a note", "tried")
        for number, added in ((1, 20.0), (2, 10.0)):
            base.execute(f"INSERT INTO kept VALUES ({'?, ' * 10}?)", (number, f"q{number}", *values[1:], added))
    return tmp_path


def test_a_home_of_files_is_taken_over(old_home: Path) -> None:
    assert [job_queue.view_job(name).state for name in (SECOND, FIRST)] == ["stopped", "waiting"]
    job = JOBS.load(FIRST)
    assert job.settings.n == 3 and jobs.uploaded_rows(job) == [("CCO",), ("CN",)]
    assert b"CCO" in rows.answers_as_csv(job)
    first, second = ANSWERS.all().values()
    assert (first.question, first.note, first.status, first.added) == ("q2", "a note", "tried", 10.0)
    assert list(ANSWERS.all()) == [first.id, second.id]  # so saving one again replaces it


def test_it_is_taken_over_once(old_home: Path) -> None:
    for answer in ANSWERS.all():
        ANSWERS.delete(answer)
    JOBS.delete(FIRST)
    assert not ANSWERS.all() and [*JOBS.all()] == [SECOND]
    assert not (old_home / "jobs" / FIRST).exists()


def test_what_cannot_be_read_in_it_harms_nothing_else_and_stays(old_home: Path) -> None:
    (old_home / "collections.sqlite3").write_bytes(b"no database" * 100)
    assert [*JOBS.all()] == [SECOND, FIRST] and not ANSWERS.all()
    with pytest.raises(StoreError, match="the job cannot be read"):
        JOBS.load(BROKEN)
    JOBS.make_room()
    assert (old_home / "jobs" / BROKEN).exists()
    JOBS.delete(BROKEN)
    with pytest.raises(StoreError, match="job not found"):
        JOBS.load(BROKEN)


def test_a_store_that_cannot_take_them_over_is_made_with_the_next_try(
    old_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store, "hashed_id", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            JOBS.all()
    assert [*JOBS.all()] == [SECOND, FIRST] and len(ANSWERS.all()) == 2


def test_a_lock_that_cannot_be_read_is_an_error_not_a_held_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    with store.hold_lock("a.lock", timeout=0.0) as held:
        assert held and store.is_locked("a.lock")
    assert not store.is_locked("a.lock")
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR

    class Broken:
        def execute(self, _: str) -> None:
            raise error

        def close(self) -> None: ...

    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: Broken())
    with pytest.raises(StoreError, match="disk I/O error"):
        store.is_locked("a.lock")
    with pytest.raises(StoreError, match="disk I/O error"), store.hold_lock("a.lock", timeout=0.0):
        pass


# --- damage ------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> jobs.Job:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    sheet = Sheet(("smiles",), [(f"{'C' * n}O",) for n in range(1, 9)])
    settings = DecodeSettings(n=3, batch_size=16)
    return jobs.create_job(sheet, file="a.csv", column=0, model="retro", digest="d", task="retro", settings=settings)


def execute(statement: str, *values: object) -> None:
    with store.open_store() as base:
        base.execute(statement, values)


@pytest.mark.parametrize(
    ("old", "new"),
    [('"batch_size": 16', '"batch_size": 17'), ('"smiles"', '"smilex"'), ('"d"', '"e"'), ("a.csv", "b.csv")],
)
def test_a_row_that_was_changed_from_outside_is_refused(stored: jobs.Job, old: str, new: str) -> None:
    execute("UPDATE documents SET json = replace(json, ?, ?)", old, new)
    with pytest.raises(StoreError, match="its checksum is another one"):
        JOBS.load(stored.id)
    assert JOBS.all() == {}


def test_a_row_has_its_own_id(stored: jobs.Job) -> None:
    execute("UPDATE documents SET id = ?", SECOND)
    with pytest.raises(StoreError, match="its checksum is another one"):
        JOBS.load(SECOND)
    execute("UPDATE documents SET checksum = NULL")  # as of before there were checksums
    with pytest.raises(StoreError, match="it has another id"):
        JOBS.load(SECOND)
    execute("UPDATE documents SET id = ?", stored.id)
    assert JOBS.load(stored.id) == stored


def test_a_store_of_before_there_were_checksums_goes_on(stored: jobs.Job, tmp_path: Path) -> None:
    execute("ALTER TABLE documents DROP COLUMN checksum")
    execute("PRAGMA user_version = 1")
    assert JOBS.load(stored.id) == stored
    jobs.end_job(stored.id, "failed")
    JOBS.change(stored.id, lambda job: replace(job, message="x"))
    with store.open_store() as base:
        ((checksum, version),) = base.execute(
            "SELECT checksum, (SELECT user_version FROM pragma_user_version) FROM documents"
        )
    assert checksum and version == store.VERSION
    assert JOBS.load(stored.id).message == "x"


@pytest.mark.parametrize("kept", [0, 1, 7, 9])
def test_uploaded_rows_that_are_missing_are_told(stored: jobs.Job, kept: int) -> None:
    file = jobs.uploaded_file(stored)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines, *lines][:kept]))
    jobs.answers_file(stored).write_text((json.dumps(JOB_ROW) + "\n") * 8)
    with pytest.raises(StoreError, match=rf"uploaded rows is damaged: it has {kept} rows, not 8; start a new job"):
        rows.answers_as_csv(stored)
    with pytest.raises(ValueError, match="uploaded rows is damaged"):
        jobs.uploaded_rows(stored)
