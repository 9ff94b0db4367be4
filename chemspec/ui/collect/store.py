"""Saved answers in an SQLite file, searched by text and by structure."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from rdkit import rdBase

from chemspec.chem.parsing import mol_from_smarts, mol_from_smiles
from chemspec.chem.substructure import has_substructure
from chemspec.system.files import make_private_file

STATUSES = ("idea", "ordered", "tried", "worked", "failed")
MAX_ANSWERS = 5000  # answers of a collection file
LONGEST = {"question": 100, "note": 2000, "query": 3000, "answer": 3000, "task": 20, "model": 200, "label": 200}
MAX_NUMBERS = {"chance": 2, "added": 4e9}  # the year 2096
FILE = "collections.sqlite3"


class StoreError(Exception):
    """The file cannot be used, or the answer exceeds a limit; the message says what to do."""


@dataclass(frozen=True)
class SavedAnswer:
    """An answer in a collection.

    Attributes:
        question: the name under which it is kept.
        task, model: of the prediction.
        query, answer: canonical SMILES.
        label: the class of the step.
        chance: of the answer, as it was shown.
        note: what its owner writes.
        status: one of `STATUSES`.
        added: seconds since 1970.
        number: of the record; 0 before it is kept.
    """

    question: str
    task: str
    model: str
    query: str
    answer: str
    label: str = ""
    chance: float = 0.0
    note: str = ""
    status: str = STATUSES[0]
    added: float = 0.0
    number: int = 0

    @property
    def reaction(self) -> str:
        """The reaction SMILES."""
        return f"{self.query}>>{self.answer}" if self.task == "forward" else f"{self.answer}>>{self.query}"


_COLUMNS = tuple(field.name for field in fields(SavedAnswer) if field.name != "number")
_TABLE = f"CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY, {', '.join(_COLUMNS)})"


@dataclass(frozen=True)
class Store:
    """A collection file, made at first use. Every call opens it again, because scripts run in many threads."""

    path: Path

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(make_private_file(self.path), timeout=5)) as base, base:
                base.execute(_TABLE)
                yield base
        except sqlite3.OperationalError as error:
            raise StoreError(f"the file {self.path.name} cannot be used: {error}") from error
        except OverflowError as error:
            raise StoreError("it holds a number that is too large to store") from error
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            raise StoreError(
                f"the file {self.path} is damaged ({error}); move it away, and a new one is made"
            ) from error
        except OSError as error:
            raise StoreError(f"the file {self.path.name} cannot be written: {error.strerror}") from error

    def keep(self, answer: SavedAnswer) -> None:
        """Save an answer; it replaces the same answer to the same query under the same name."""
        answer = _check_limits(replace(answer, added=answer.added or time.time()))
        with self._open() as base:
            same = (answer.question, answer.task, answer.query, answer.answer)
            base.execute("DELETE FROM kept WHERE question = ? AND task = ? AND query = ? AND answer = ?", same)
            (count,) = base.execute("SELECT count(*) FROM kept").fetchone()
            if count >= MAX_ANSWERS:
                raise StoreError(f"there are {MAX_ANSWERS} answers already; remove some first")
            marks = ", ".join("?" * len(_COLUMNS))
            values = [getattr(answer, name) for name in _COLUMNS]
            base.execute(f"INSERT INTO kept ({', '.join(_COLUMNS)}) VALUES ({marks})", values)

    def change(self, number: int, *, note: str, status: str) -> None:
        """Update note and status."""
        if status not in STATUSES or len(note) > LONGEST["note"]:
            raise StoreError(f"a note has at most {LONGEST['note']} characters")
        with self._open() as base:
            base.execute("UPDATE kept SET note = ?, status = ? WHERE number = ?", (note, status, number))

    def remove(self, number: int) -> None:
        """Remove an answer."""
        with self._open() as base:
            base.execute("DELETE FROM kept WHERE number = ?", (number,))

    def all(self) -> list[SavedAnswer]:
        """Return everything, the newest first."""
        with self._open() as base:
            rows = base.execute(
                f"SELECT {', '.join(_COLUMNS)}, number FROM kept ORDER BY added DESC LIMIT {MAX_ANSWERS}"
            ).fetchall()
            return [_check_limits(SavedAnswer(*row)) for row in rows]


def _check_limits(answer: SavedAnswer) -> SavedAnswer:
    """Return an answer unchanged; raise ValueError or StoreError where a field has the wrong type or is too long."""
    for name, most in LONGEST.items():
        value = getattr(answer, name)
        if not isinstance(value, str):
            raise ValueError(f"{name} is no text")
        if len(value) > most:
            raise StoreError(f"{name} has {len(value)} characters; at most {most} are kept")
    if answer.status not in STATUSES:
        raise ValueError(f"no status {answer.status!r}")
    if not answer.question.strip():
        raise StoreError("give it a name")
    for name, largest in MAX_NUMBERS.items():
        value = getattr(answer, name)
        if not isinstance(value, int | float) or not 0 <= value <= largest:  # which NaN is not
            raise ValueError(f"{name} is no number that it can be")
    return answer


def find_matching(
    answers: Sequence[SavedAnswer], *, text: str = "", structure: str = "", status: str = ""
) -> list[SavedAnswer]:
    """Return the answers that match all words, a substructure (SMILES or SMARTS) and a status.

    Raises:
        ValueError: if the structure cannot be read.
    """
    words = text.lower().split()
    pattern = _read_pattern(structure.strip()) if structure.strip() else None
    matches = []
    for answer in answers:
        about = " ".join(
            (answer.question, answer.note, answer.label, answer.status, answer.query, answer.answer)
        ).lower()
        if (status and answer.status != status) or not all(word in about for word in words):
            continue
        if pattern is None or any(has_substructure(smiles, pattern) for smiles in (answer.query, answer.answer)):
            matches.append(answer)
    return matches


def _read_pattern(text: str) -> Any:
    with rdBase.BlockLogs():
        pattern = (mol_from_smiles(text) or mol_from_smarts(text)) if len(text) <= 500 else None
    if pattern is None:
        raise ValueError("the structure is neither a SMILES nor a SMARTS")
    return pattern


def answer_row(answer: SavedAnswer) -> dict[str, object]:
    """Return an answer as a row of a table."""
    values = asdict(answer)
    del values["number"]
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(answer.added))
    return {**values, "chance": f"{answer.chance:.4g}", "added": when, "reaction": answer.reaction}
