"""Queries asked before: of this visit, and on disk where whoever runs the app wants it.

A server may have many visitors who should not read each other's queries, so nothing goes to disk unless the environment
variable CHEMSPEC_HISTORY is set for the server; then the list is shared by all who use it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import streamlit as st

from chemspec.types import DecodeResult
from chemspec.ui.common.app_dir import AppDirError, app_dir

MOST = 20  # entries shown
MOST_ON_DISK = 500
_KEY = "history_entries"
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A query that was answered: model, canonical SMILES, its best answer, seconds since 1970."""

    model: str
    smiles: str
    answer: str
    at: float


def on_disk() -> bool:
    """Return whether whoever started the server wants the history kept."""
    return os.environ.get("CHEMSPEC_HISTORY", "").lower() in ("1", "true", "yes", "on")


def remember(model: str, smiles: str, result: DecodeResult) -> None:
    """Put an answered query on top of the list; an older entry of the same goes."""
    if not result.hypotheses:
        return
    answer = result.hypotheses[0].canonical or result.hypotheses[0].smiles
    last = _visit()[:1]
    if last and (last[0].model, last[0].smiles) == (model, smiles):
        return  # a page is run again at every click
    entry = Entry(model, smiles, answer, time.time())
    st.session_state[_KEY] = newest([entry, *_visit()])[:MOST]
    _shared(lambda file: write(file, entry))


def recent() -> list[Entry]:
    """Return the list, newest first."""
    return newest([*_visit(), *(_shared(read) or ())])[:MOST]


def clear() -> None:
    """Forget everything, on disk too."""
    st.session_state[_KEY] = []
    _shared(empty)


def _shared(action: Callable[[Path], T]) -> T | None:
    """Do something to the file on disk, if there is to be one; `fault` tells if it fails."""
    if on_disk():
        try:
            return action(app_dir() / "history.sqlite")
        except (AppDirError, sqlite3.Error) as error:
            st.session_state["history_fault"] = str(error)
    return None


def fault() -> str:
    """Return why the list on disk could not be used, once."""
    return str(st.session_state.pop("history_fault", ""))


def newest(entries: Sequence[Entry]) -> list[Entry]:
    """Return entries newest first, the newest of each query only."""
    kept: dict[tuple[str, str], Entry] = {}
    for entry in sorted(entries, key=lambda entry: -entry.at):
        kept.setdefault((entry.model, entry.smiles), entry)
    return list(kept.values())


def _visit() -> list[Entry]:
    entries: list[Entry] = st.session_state.get(_KEY, [])
    return entries


# --- on disk --------------------------------------------------------------------------------------


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=5)) as base, base:
        base.execute(
            "CREATE TABLE IF NOT EXISTS history (model TEXT, smiles TEXT, answer TEXT, at REAL,"
            " PRIMARY KEY (model, smiles))"
        )
        yield base


def write(path: Path, entry: Entry) -> None:
    """Put an entry into a file, which is made if need be.

    Raises:
        sqlite3.Error: if it cannot be written or is no such file.
    """
    with _open(path) as base:
        base.execute(
            "INSERT OR REPLACE INTO history VALUES (?, ?, ?, ?)", (entry.model, entry.smiles, entry.answer, entry.at)
        )
        base.execute(
            "DELETE FROM history WHERE at < (SELECT at FROM history ORDER BY at DESC LIMIT 1 OFFSET ?)",
            (MOST_ON_DISK - 1,),
        )


def read(path: Path, most: int = MOST) -> list[Entry]:
    """Return the newest entries of a file, newest first.

    Raises:
        sqlite3.Error: if it cannot be read.
    """
    with _open(path) as base:
        rows = base.execute(
            "SELECT model, smiles, answer, at FROM history ORDER BY at DESC LIMIT ?", (most,)
        ).fetchall()
    return [Entry(str(model), str(smiles), str(answer), float(at)) for model, smiles, answer, at in rows]


def empty(path: Path) -> None:
    """Delete all entries of a file."""
    with _open(path) as base:
        base.execute("DELETE FROM history")
