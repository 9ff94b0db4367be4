"""Jobs and saved answers: documents in one SQLite file, and the folders of their larger files.

    chemspec.sqlite3          a row for each document: kind, id, JSON, and when it changed last
    jobs/<id>/                uploaded rows, answers, a price list

Rows are in the order of their last change: `INSERT OR REPLACE` puts a row at the end. An id is a secret: who knows it
may see, change and delete the document. Texts of visitors are content, never part of a path.
"""

import hashlib
import json
import math
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from chemspec.system.files import home_folder, make_private_file, make_private_folder

FILE = "chemspec.sqlite3"
TABLES = (
    "CREATE TABLE documents (kind TEXT, id TEXT, json TEXT, changed REAL, expired REAL, PRIMARY KEY (kind, id))",
    "CREATE TABLE runner (job TEXT, pid INTEGER)",  # see `job_queue`
)
# From version 2 of the file on, a row has a checksum of kind, id and JSON; rows of before have none.
VERSION, CHECKSUM = 2, "ALTER TABLE documents ADD COLUMN checksum TEXT"
PUT = "INSERT OR REPLACE INTO documents (kind, id, json, changed) VALUES (?, ?, ?, ?)"
PUT_CHECKED = "INSERT OR REPLACE INTO documents (kind, id, json, changed, checksum) VALUES (?, ?, ?, ?, ?)"
DAY = 86_400.0
LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)  # error codes while another connection holds a lock
_ID = re.compile(r"[A-Za-z0-9_-]{22}")
T = TypeVar("T")


class StoreError(ValueError):
    """A document cannot be found, read or stored; the message says why and what to do."""


class NoRoomError(StoreError):
    """There are too many documents of a kind, or their files are too large."""


def ensure_home() -> Path:
    """Return the app's folder, created if missing and checked to be writable; private to its owner.

    Raises:
        StoreError: if it cannot be made or written.
    """
    try:
        home = home_folder()
        if not home.is_dir():  # the mode of an existing one is for its owner to choose, see `files.permission_warning`
            make_private_folder(home)
        # Permission bits do not reveal read-only and full disks; writing a file does.
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(b"\n")
    except (OSError, RuntimeError) as error:  # a user without a home folder is a RuntimeError
        path = os.environ.get("CHEMSPEC_HOME") or "~/.chemspec"
        raise StoreError(
            f"the folder {path} cannot be written: {getattr(error, 'strerror', None) or error}; "
            "make room, or set CHEMSPEC_HOME to a folder that can be written and start the app again"
        ) from error
    return home


@contextmanager
def open_store(home: Path | None = None) -> Iterator[sqlite3.Connection]:
    """Open the store for one transaction, written wholly or not at all; raises StoreError if it is unusable."""
    path = (home or home_folder()) / FILE
    try:
        if home is None and not path.exists():
            ensure_home()
        with closing(sqlite3.connect(make_private_file(path), timeout=10)) as base, base:
            if base.execute("PRAGMA user_version").fetchone()[0] < VERSION:
                _make_tables(base, path.parent)
            yield base
    except sqlite3.OperationalError as error:
        raise StoreError(f"the file {path.name} cannot be used: {error}") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise StoreError(f"the file {path} is damaged ({error}); move it away, and a new one is made") from error
    except OSError as error:
        raise StoreError(f"the file {path.name} cannot be written: {error.strerror or error}") from error


def _make_tables(base: sqlite3.Connection, home: Path) -> None:
    with suppress(sqlite3.OperationalError):  # another process is doing it
        base.execute("PRAGMA journal_mode = WAL")
    base.execute("BEGIN IMMEDIATE")
    version = base.execute("PRAGMA user_version").fetchone()[0]
    if version < VERSION:
        if not version:
            for table in TABLES:
                base.execute(table)
            _take_over_files(base, home)
        base.execute(CHECKSUM)
        base.execute(f"PRAGMA user_version = {VERSION}")


def _take_over_files(base: sqlite3.Connection, home: Path) -> None:
    """Store the jobs and saved answers that versions before 0.3 kept in files."""
    for path in sorted(home.glob("jobs/*/job.json"), key=lambda path: path.stat().st_mtime):
        changed = max(file.stat().st_mtime for file in path.parent.iterdir())
        text = path.read_text(encoding="ascii", errors="replace")
        text = text.replace('"state": "running"', '"state": "stopped"')  # its server had no process apart
        base.execute(PUT, ("jobs", path.parent.name, text, changed))
    old = home / "collections.sqlite3"
    if old.exists():
        with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(old)) as collections:
            collections.row_factory = sqlite3.Row
            for row in map(dict, collections.execute("SELECT * FROM kept ORDER BY added")):
                name = hashed_id(*(row[key] for key in ("question", "task", "query", "answer")))
                row.pop("number")
                base.execute(PUT, ("answers", name, json.dumps(row), row["added"]))


@contextmanager
def hold_lock(name: str, timeout: float) -> Iterator[bool]:
    """Hold a lock, a file of the app's folder; yields False if it was not free within `timeout` seconds.

    The system releases it however the process ends, but a suspended process (SIGSTOP) keeps it until it continues.
    """
    with _lock_file(name, "BEGIN EXCLUSIVE", timeout) as free:
        yield free


def is_locked(name: str) -> bool:
    """Return whether a process holds the lock of this name."""
    with _lock_file(name, "SELECT * FROM sqlite_master", 0.0) as free:
        return not free


@contextmanager
def _lock_file(name: str, statement: str, timeout: float) -> Iterator[bool]:
    """Open the database that is a lock, and yield whether the statement could be executed."""
    path = make_private_file(home_folder() / name)
    with closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as base:
        try:
            base.execute(statement)
            free = True
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in LOCKED:
                raise StoreError(f"the lock {name} cannot be read: {error}") from error
            free = False
        yield free


def new_id() -> str:
    """Return a random id."""
    return secrets.token_urlsafe(16)


def hashed_id(*texts: str) -> str:
    """Return an id that equal texts share."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:22]


@dataclass(frozen=True)
class Documents(Generic[T]):
    """The documents of one kind.

    Attributes:
        kind: also the name of the folder of their files.
        noun: what messages call one.
        type: a dataclass.
        days: a document is kept after its last change; finite if those unchanged for `idle` seconds may go where there
            is no room for another one.
        most, most_bytes: limits of their number, and of their files.
        idle: see `days`.
        in_use: whether a document stays although there is no room for another one.
        home: folder of the store; None for the app's.
    """

    kind: str
    noun: str
    type: type[T]
    days: float = math.inf
    most: int = 1000
    most_bytes: float = math.inf
    idle: float = DAY
    in_use: Callable[[T], bool] = lambda _: False
    home: Path | None = None

    def folder(self, name: str) -> Path:
        """Return the folder of a document's files; it may not exist. Raise StoreError if the text is no id."""
        if not _ID.fullmatch(name):
            raise StoreError(f"{self.noun} not found: its link is not complete; copy it again")
        return (self.home or home_folder()) / self.kind / name

    def make_folder(self, name: str) -> Path:
        """Make the folder of a document's files, private to its owner."""
        folder = self.folder(name)
        return make_private_folder(make_private_folder(folder.parent) / name)

    def load(self, name: str) -> T:
        """Return a document by its id; raises StoreError if there is none, or it cannot be read."""
        with open_store(self.home) as base:
            return self._read(base, name)

    def all(self, having: str = "") -> dict[str, T]:
        """Return all documents that can be read, by id, those that changed last at the end.

        `having`: a text in the JSON of all that are returned; others are not parsed.
        """
        documents = {}
        with open_store(self.home) as base:
            which = "WHERE kind = ? AND instr(json, ?) > 0"
            for row in base.execute(
                f"SELECT id, json, checksum FROM documents {which} ORDER BY rowid", (self.kind, having)
            ):
                with suppress(StoreError):
                    documents[row[0]] = self._decode(*row)
        return documents

    def save(self, name: str, document: T) -> None:
        """Write a document; raises StoreError if it is new and there is no room, or it cannot be written."""
        try:
            self.load(name)
        except StoreError:
            self.make_room()
        with open_store(self.home) as base:
            self._write(base, name, document)

    def change(self, name: str, edit: Callable[[T], T]) -> T:
        """Replace a document by what a function makes of it; raise StoreError if it was deleted meanwhile."""
        with open_store(self.home) as base:
            base.execute("BEGIN IMMEDIATE")
            old = self._read(base, name)
            if (new := edit(old)) != old:
                self._write(base, name, new)
            return new

    def delete(self, name: str) -> None:
        """Remove a document with its files, if it is there; raises StoreError if it cannot be removed."""
        try:
            with suppress(FileNotFoundError):
                shutil.rmtree(self.folder(name))  # first: a document whose deletion was killed can be deleted again
        except OSError as error:
            raise StoreError(f"the {self.noun} cannot be deleted: {error.strerror or error}") from error
        with open_store(self.home) as base:
            base.execute("DELETE FROM documents WHERE kind = ? AND id = ?", (self.kind, name))

    def make_room(self, now: float | None = None) -> None:
        """Remove expired documents, and where there are too many those unchanged for `idle` seconds, oldest first.

        A clock that jumps makes everything old at once; so a document goes a day after it was first seen to be old.
        Raises StoreError if there is still no room for another document.
        """
        now = time.time() if now is None else now
        with open_store(self.home) as base:
            base.execute(
                "UPDATE documents "
                "SET expired = CASE WHEN :now - changed > :age THEN min(ifnull(expired, :now), :now) END "
                "WHERE kind = :kind AND (expired IS NOT NULL OR :now - changed > :age)",
                {"now": now, "age": min(self.days * DAY, 1e18), "kind": self.kind},
            )
            rows = base.execute("SELECT id, changed, expired FROM documents WHERE kind = ? ORDER BY rowid", [self.kind])
            stored = {name: (changed, expired) for name, changed, expired in rows}
        root = (self.home or home_folder()) / self.kind
        sizes = dict.fromkeys(stored, 0)
        for folder in root.glob("?" * 22):
            with suppress(FileNotFoundError):  # deleted meanwhile
                if folder.name in stored:
                    sizes[folder.name] = sum(file.stat().st_size for file in folder.iterdir())
                elif now - folder.stat().st_mtime > DAY:  # its document was never written
                    shutil.rmtree(folder)
        for name, (changed, expired) in stored.items():
            early = math.isfinite(self.days) and now - changed > self.idle and self._is_full(sizes)
            if (early and not self._is_in_use(name)) or (expired is not None and now - expired >= DAY):
                with suppress(StoreError):
                    self.delete(name)
                    del sizes[name]
        if self._is_full(sizes):
            raise NoRoomError(f"there is no room for another {self.noun}; delete one that is no longer needed")

    def _is_in_use(self, name: str) -> bool:
        try:
            return self.in_use(self.load(name))
        except StoreError:
            return False

    def _is_full(self, sizes: dict[str, int]) -> bool:
        return len(sizes) >= self.most or sum(sizes.values()) > self.most_bytes

    def _read(self, base: sqlite3.Connection, name: str) -> T:
        query = "SELECT id, json, checksum FROM documents WHERE kind = ? AND id = ?"
        row = base.execute(query, (self.kind, name)).fetchone()
        if row is None:
            expiry = f", has expired ({self.days} days without changes)" if math.isfinite(self.days) else ""
            raise StoreError(f"{self.noun} not found: it was deleted{expiry} or its link is not complete")
        return self._decode(*row)

    def _decode(self, name: str, text: Any, checksum: str | None) -> T:
        try:
            if checksum is not None and checksum != hashed_id(self.kind, name, text):
                raise ValueError("its checksum is another one")
            document = msgspec.convert(json.loads(text), self.type)
            if getattr(document, "id", name) != name:
                raise ValueError("it has another id")
            return document
        except (ValueError, TypeError, RecursionError) as error:
            raise StoreError(f"the {self.noun} cannot be read ({error}); delete it") from error

    def _write(self, base: sqlite3.Connection, name: str, document: Any) -> None:
        text = json.dumps(asdict(document))
        base.execute(PUT_CHECKED, (self.kind, name, text, time.time(), hashed_id(self.kind, name, text)))
