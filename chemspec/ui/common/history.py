"""Queries asked before: of this visit, and on disk where whoever runs the app wants it.

A server may have many visitors who should not read each other's queries, so nothing goes to disk unless the environment
variable CHEMSPEC_HISTORY is set for the server; then the list is shared by all who use it: a JSON a line, newest last.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import streamlit as st

from chemspec.system.files import write_whole_bytes
from chemspec.types import DecodeResult
from chemspec.ui.common.app_dir import AppDirError, app_dir

MOST = 20  # entries shown
MOST_ON_DISK = 500
MOST_BYTES = 1_000_000  # of the file; then the oldest entries go
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
    visit: list[Entry] = st.session_state.get(_KEY, [])
    again = visit and (visit[0].model, visit[0].smiles) == (model, smiles)  # a page is run again at every click
    if result.hypotheses and not again:
        best = result.hypotheses[0]
        entry = Entry(model, smiles, best.canonical or best.smiles, time.time())
        st.session_state[_KEY] = newest([entry, *visit])[:MOST]
        _shared(lambda file: append(file, entry))


def recent() -> list[Entry]:
    """Return the list, newest first."""
    return newest([*st.session_state.get(_KEY, []), *(_shared(read) or ())])[:MOST]


def clear() -> None:
    """Forget everything, on disk too."""
    st.session_state[_KEY] = []
    _shared(lambda file: file.unlink(missing_ok=True))


def _shared(action: Callable[[Path], T]) -> T | None:
    """Do something to the file on disk, if there is to be one; `fault` tells if it fails."""
    if on_disk():
        try:
            return action(app_dir() / "history.jsonl")
        except (AppDirError, OSError, ValueError) as error:
            st.session_state["history_fault"] = str(error)
    return None


def fault() -> str:
    """Return why the list on disk could not be used, once."""
    return str(st.session_state.pop("history_fault", ""))


def newest(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries newest first, the newest of each query only."""
    by_query: dict[tuple[str, str], Entry] = {}
    for entry in sorted(entries, key=lambda entry: -entry.at):
        by_query.setdefault((entry.model, entry.smiles), entry)
    return list(by_query.values())


def append(path: Path, entry: Entry) -> None:
    """Put an entry at the end of a file, which is made if need be."""
    if path.exists() and (path.stat().st_size > MOST_BYTES or not _ends_whole(path)):
        write_whole_bytes(path, b"".join(msgspec.json.encode(kept) + b"\n" for kept in reversed(read(path))))
    with path.open("ab") as file:
        file.write(msgspec.json.encode(entry) + b"\n")


def _ends_whole(path: Path) -> bool:
    """Whether the last line was written to its end; a full disk may leave half a line."""
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return True
        file.seek(-1, 2)
        return file.read(1) == b"\n"


def _torn(line: bytes) -> bool:
    """Whether a line is the beginning of an entry that was not written to its end."""
    return line.startswith(b"{") and not line.endswith(b"\n")


def read(path: Path) -> list[Entry]:
    """Return the newest entries of a file, newest first.

    Raises:
        ValueError: if it holds anything else.
    """
    if not path.exists():
        return []
    try:
        with path.open("rb") as lines:
            last = deque(lines, MOST_ON_DISK)
            return newest(msgspec.json.decode(line, type=Entry) for line in last if not _torn(line))
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error
