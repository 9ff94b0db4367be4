"""Keep what was promised: questions that got a number, until their answers are there, also over a crash."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from pathlib import Path
from threading import Lock
from typing import Any

KEPT = 24 * 3600.0  # seconds for which an answer can be fetched
TABLE = "CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, came REAL, question TEXT, answer TEXT)"


class Journal:
    """Questions and answers by number, on the disk or, without a path, in memory."""

    def __init__(self, path: Path | None) -> None:
        """Open the file, or make it.

        Raises:
            OSError: if it cannot be had, or is damaged.
        """
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = Lock()
        try:
            self._table = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
            self._table.execute("PRAGMA journal_mode=WAL")
            self._table.execute("PRAGMA synchronous=FULL")
            self._table.execute(TABLE)
        except sqlite3.DatabaseError as error:
            raise OSError(f"{path} cannot be used ({error}); move it away, or give another with --state") from error

    def add(self, question: Any) -> str:
        """Keep a question and return its number; when this returns, it is on the disk."""
        number = uuid.uuid4().hex
        with self._lock:
            self._table.execute("DELETE FROM tasks WHERE came < ?", (time.time() - KEPT,))
            row = (number, time.time(), json.dumps(question))
            self._table.execute("INSERT INTO tasks VALUES (?, ?, ?, NULL)", row)
        return number

    def answer(self, number: str, answer: Any) -> None:
        """Keep the answer to a question."""
        with self._lock:
            self._table.execute("UPDATE tasks SET answer = ? WHERE id = ?", (json.dumps(answer), number))

    def read(self, number: str) -> tuple[Any, Any] | None:
        """Return a question and its answer, which is None where there is none yet; None where the number is unknown."""
        with self._lock:
            row = self._table.execute("SELECT question, answer FROM tasks WHERE id = ?", (number,)).fetchone()
        return None if row is None else (json.loads(row[0]), row[1] and json.loads(row[1]))

    def open(self) -> list[tuple[str, Any]]:
        """Return the questions without an answer, the oldest first."""
        with self._lock:
            rows = self._table.execute("SELECT id, question FROM tasks WHERE answer IS NULL ORDER BY came").fetchall()
        return [(number, json.loads(question)) for number, question in rows]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._table.close()
