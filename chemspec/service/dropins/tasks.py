"""Keep what was promised: questions that got a number, until their answers are there, also over a crash."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from chemspec.system.files import private_file, private_folder

KEPT = 24 * 3600.0  # seconds for which an answer can be fetched
MOST_BYTES = 200_000_000  # of questions and answers; beyond it the oldest answers go
MOST_OPEN = 10_000  # questions without an answer
# `came` is when a row became what it is: when the question came, then when the answer did.
TABLES = (
    "CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, came REAL, question TEXT, answer TEXT)",
    "CREATE INDEX IF NOT EXISTS waiting ON tasks (came) WHERE answer IS NULL",
    "CREATE INDEX IF NOT EXISTS answered ON tasks (came) WHERE answer IS NOT NULL",
)
OLDEST = "DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE answer IS NOT NULL ORDER BY came LIMIT 1)"


class JournalError(OSError):
    """Something cannot be kept or read; the message says why and what to do."""


class Journal:
    """Questions and answers by number, on the disk or, without a path, in memory."""

    def __init__(self, path: Path | None) -> None:
        """Open the file, or make it; only its owner can read it, and no other process can open it meanwhile.

        Raises:
            JournalError: if another process has it open, or it is damaged.
            OSError: if it cannot be made.
        """
        if path is not None:
            if not path.parent.is_dir():
                private_folder(path.parent)
            private_file(path)
        self._lock = Lock()
        try:
            self._table = sqlite3.connect(
                path or ":memory:", timeout=0.2, check_same_thread=False, isolation_level=None
            )
            for setting in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
                self._table.execute(f"PRAGMA {setting}")
            for line in TABLES:
                self._table.execute(line)
            self._remove_expired()
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                message = f"another service keeps its questions in {path}; give this one another file with --state"
                raise JournalError(message) from error
            raise JournalError(f"{path} cannot be used: {error}") from error
        except sqlite3.DatabaseError as error:
            message = f"{path} cannot be used ({error}); move it away, or give another with --state"
            raise JournalError(message) from error

    def add(self, question: Any) -> str:
        """Keep a question and return its number; when this returns, it is on the disk.

        Raises:
            JournalError: if there is no room for it.
        """
        number, text = uuid.uuid4().hex, json.dumps(question)
        with self._using() as table:
            self._remove_expired()
            (count,) = table.execute("SELECT COUNT(*) FROM tasks WHERE answer IS NULL").fetchone()
            if count >= MOST_OPEN or not self._make_room(len(text)):
                raise JournalError("too many questions wait for their answers; ask again later")
            table.execute("INSERT INTO tasks VALUES (?, ?, ?, NULL)", (number, time.time(), text))
        return number

    def answer(self, number: str, answer: Any) -> None:
        """Keep the answer to a question; its day begins now.

        Raises:
            JournalError: if it cannot be written; then the question stays as it was.
        """
        text = json.dumps(answer)
        with self._using() as table:
            self._make_room(len(text))
            table.execute("UPDATE tasks SET answer = ?, came = ? WHERE id = ?", (text, time.time(), number))

    def read(self, number: str) -> tuple[Any, Any] | None:
        """Return a question and its answer, which is None where there is none yet; None where the number is unknown.

        Raises:
            JournalError: if it cannot be read.
        """
        with self._using() as table:
            known = "SELECT question, answer FROM tasks WHERE id = ? AND (answer IS NULL OR came >= ?)"
            row = table.execute(known, (number, time.time() - KEPT)).fetchone()
        return None if row is None else (json.loads(row[0]), row[1] and json.loads(row[1]))

    def open(self) -> list[tuple[str, Any]]:
        """Return the questions without an answer, the oldest first."""
        with self._using() as table:
            rows = table.execute("SELECT id, question FROM tasks WHERE answer IS NULL ORDER BY came").fetchall()
        return [(number, json.loads(question)) for number, question in rows]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._table.close()

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """Hold the table for one transaction, which a failure takes back."""
        try:
            with self._lock:
                self._table.execute("BEGIN")
                try:
                    yield self._table
                    self._table.execute("COMMIT")
                except BaseException:
                    if self._table.in_transaction:
                        self._table.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            raise JournalError(f"the file of questions cannot be used: {error}") from error

    def _remove_expired(self) -> None:
        self._table.execute("DELETE FROM tasks WHERE answer IS NOT NULL AND came < ?", (time.time() - KEPT,))

    def _make_room(self, more: int) -> bool:
        """Remove the oldest answers, with their questions, until so many bytes more can be kept; whether they can."""
        while not (room := self._used() + more <= MOST_BYTES) and self._table.execute(OLDEST).rowcount:
            pass
        return room

    def _used(self) -> int:
        """Return how many bytes of the file are in use."""
        pages, free, size = (
            self._table.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)
