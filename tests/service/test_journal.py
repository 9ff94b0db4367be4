"""Questions that got a number: kept until a day after their answer, within limits, by one service, for nobody else."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from serving import Process, Running, serving, until

from chemspec.engine.engine import Engine

pytest.importorskip("fastapi")

from chemspec.service.dropins import rxn, tasks
from chemspec.service.dropins.tasks import Journal, JournalError

HOUR = 3600.0
BATCH = "/rxn/api/api/v1/predictions/pr/batch"


class Clock:
    """Stands in for the module time."""

    def __init__(self) -> None:
        self.now = 1e9

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(tasks, "time", made)
    return made


@pytest.fixture(params=["disk", "memory"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return Journal(tmp_path / "tasks" if request.param == "disk" else None)


def test_an_answer_can_be_fetched_for_a_day_after_it_came(journal: Journal, clock: Clock) -> None:
    number = journal.add("question")
    clock.now += 20 * HOUR
    journal.answer(number, "answer")
    clock.now += 24 * HOUR - 1
    journal.add("another")
    assert journal.read(number) == ("question", "answer")
    clock.now += 2
    assert journal.read(number) is None
    journal.add("another")
    clock.now -= HOUR
    assert journal.read(number) is None  # removed, not hidden


def test_a_question_waits_for_its_answer_however_long(tmp_path: Path, clock: Clock) -> None:
    journal = Journal(tmp_path / "tasks")
    number = journal.add("question")
    clock.now += 24 * 40 * HOUR
    journal.add("another")
    journal.close()
    journal = Journal(tmp_path / "tasks")  # a service that was down for a while
    assert journal.open()[0] == (number, "question")
    journal.answer(number, "answer")
    clock.now += 23 * HOUR
    assert journal.read(number) == ("question", "answer")


def test_answers_beyond_the_limit_go_oldest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MOST_BYTES", 1_000_000)
    journal = Journal(tmp_path / "tasks")
    waiting = journal.add("x" * 50_000)
    numbers = []
    for _ in range(60):
        numbers.append(journal.add("q" * 25_000))
        journal.answer(numbers[-1], "a" * 25_000)
    journal.close()
    assert (tmp_path / "tasks").stat().st_size < 1_200_000
    journal = Journal(tmp_path / "tasks")
    known = [journal.read(number) is not None for number in numbers]
    assert known == sorted(known) and 12 < sum(known) < 20
    assert [number for number, _ in journal.open()] == [waiting]


def test_questions_beyond_the_limits_are_refused_and_the_others_stay(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_BYTES", 200_000)
    numbers = [journal.add("q" * 50_000) for _ in range(3)]
    with pytest.raises(JournalError, match="ask again later"):
        journal.add("q" * 50_000)
    monkeypatch.setattr(tasks, "MOST_OPEN", 4)
    numbers.append(journal.add("q"))
    with pytest.raises(JournalError, match="ask again later"):
        journal.add("q")
    assert [number for number, _ in journal.open()] == numbers
    journal.answer(numbers[0], "answer")
    assert journal.add("q")


def test_a_second_service_is_told_that_the_file_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "tasks"
    journal = Journal(path)
    number = journal.add("question")
    code = f"from pathlib import Path; from chemspec.service.dropins.tasks import Journal; Journal(Path({str(path)!r}))"
    second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "another service keeps its questions" in second.stderr and "--state" in second.stderr
    assert journal.open() == [(number, "question")]
    journal.close()
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.slow  # a program that starts
def test_the_command_says_so_and_ends(tmp_path: Path, folders: dict[str, Path]) -> None:
    journal = Journal(tmp_path / "tasks")
    with pytest.raises(AssertionError, match="another service keeps its questions"):
        Process(tmp_path, [folders["retro"]])
    journal.close()


@pytest.mark.parametrize("umask", [0o022, 0])
def test_only_its_owner_can_read_it(tmp_path: Path, umask: int) -> None:
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o644)
    before = os.umask(umask)
    try:
        journals = [Journal(path) for path in (tmp_path / "new" / "tasks", tmp_path / "old")]
        for journal in journals:
            journal.add("question")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes.pop("new") == 0o700
    assert set(modes) == {"tasks", "tasks-wal", "old", "old-wal"} and set(modes.values()) == {0o600}


def test_the_table_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    table = sqlite3.connect(tmp_path / "tasks")
    table.execute("CREATE TABLE tasks (id TEXT PRIMARY KEY, came REAL, question TEXT, answer TEXT)")
    table.execute("""INSERT INTO tasks VALUES ('n', 1.0, '"question"', NULL)""")
    table.commit()
    table.close()
    assert Journal(tmp_path / "tasks").open() == [("n", "question")]


# --- the service behind it -----------------------------------------------------------------------


def post(running: Running, body: Any) -> str:
    status, document, _ = running.send("POST", BATCH, body)
    assert status == 200, document
    return str(document["payload"]["task_id"])


def fetch(running: Running, number: str) -> dict[str, Any]:
    status, document, _ = running.send("GET", f"{BATCH}/{number}?wait=10")
    assert status == 200, document
    found: dict[str, Any] = document["payload"]
    return found


class Full(Journal):
    """A journal on a disk that is full while `full` says so."""

    full: ClassVar[set[str]] = set()
    attempts = 0

    def add(self, question: Any) -> str:
        if "questions" in self.full:
            raise JournalError("database or disk is full")
        return super().add(question)

    def answer(self, number: str, answer: Any) -> None:
        type(self).attempts += 1
        if "answers" in self.full:
            raise JournalError("database or disk is full")
        super().answer(number, answer)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> type[Full]:
    monkeypatch.setattr(rxn, "Journal", Full)
    monkeypatch.setattr(rxn, "RETRY", 0.01)
    Full.full, Full.attempts = set(), 0
    return Full


def test_an_answer_that_finds_no_room_is_given_and_written_later(
    engines: dict[str, Engine], tmp_path: Path, full: type[Full], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), serving([engines], tmp_path / "tasks") as running:
        full.full = {"answers"}
        number = post(running, {"reactants": ["CCO", "CCN"]})
        found = fetch(running, number)
        assert found["task"]["status"] == "DONE"
        until(lambda: full.attempts > 3, "attempts")
        assert fetch(running, number) == found
        full.full = set()
        before = full.attempts
        until(lambda: full.attempts > before, "another attempt")
        assert fetch(running, number) == found
    assert Journal(tmp_path / "tasks").open() == []
    assert [record.getMessage() for record in caplog.records] == ["an answer cannot be written"]


def test_an_answer_that_never_finds_room_is_made_again_by_the_next_service(
    engines: dict[str, Engine], tmp_path: Path, full: type[Full], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rxn, "LAST_WAIT", 0.1)
    with serving([engines], tmp_path / "tasks") as running:
        full.full = {"answers"}
        number = post(running, {"reactants": ["CCO"]})
        found = fetch(running, number)
    full.full = set()
    with serving([engines], tmp_path / "tasks") as running:
        assert fetch(running, number) == found


def test_a_question_that_finds_no_room_is_refused(engines: dict[str, Engine], tmp_path: Path, full: type[Full]) -> None:
    with serving([engines], tmp_path / "tasks") as running:
        full.full = {"questions"}
        status, document, headers = running.send("POST", BATCH, {"reactants": ["CCO"]})
        assert status == 503 and "disk is full" in document["detail"] and int(headers["retry-after"]) > 0


def test_an_answer_that_cannot_be_put_in_words_is_an_error_and_not_a_wait(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("CCO")

    monkeypatch.setattr(rxn, "_brief", broken)
    with serving([engines]) as running:
        found = fetch(running, post(running, {"reactants": ["CCO"]}))
    assert found["task"]["status"] == "ERROR"
    assert "ZeroDivisionError" in found["detail"] and "CCO" not in found["detail"]
    assert "never retrieved" not in caplog.text


def test_what_is_refused_at_once_is_not_kept(engines: dict[str, Engine], tmp_path: Path) -> None:
    with serving([engines], tmp_path / "tasks") as running:
        for _ in range(20):
            status, document, _ = running.send("POST", BATCH, {"reactants": ["CC(" * 100] * 50})
            assert status == 422 and "never closed" in document["detail"]
    with sqlite3.connect(tmp_path / "tasks") as table:
        assert table.execute("SELECT count(*) FROM tasks").fetchone() == (0,)
    assert (tmp_path / "tasks").stat().st_size < 100_000
