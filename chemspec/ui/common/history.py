"""Queries asked before, of this visit: a server may have many visitors who should not read each other's queries."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import streamlit as st

from chemspec.types import DecodeResult

MOST = 20  # entries
_KEY = "history_entries"


@dataclass(frozen=True)
class Entry:
    """A query that was answered: model, canonical SMILES, its best answer, seconds since 1970."""

    model: str
    smiles: str
    answer: str
    at: float


def remember(model: str, smiles: str, result: DecodeResult) -> None:
    """Put an answered query on top of the list; an older entry of the same goes."""
    entries = recent()
    again = entries and (entries[0].model, entries[0].smiles) == (model, smiles)  # a page is run again at every click
    if result.hypotheses and not again:
        best = result.hypotheses[0]
        entry = Entry(model, smiles, best.canonical or best.smiles, time.time())
        st.session_state[_KEY] = newest([entry, *entries])[:MOST]


def recent() -> list[Entry]:
    """Return the list, newest first."""
    entries: list[Entry] = st.session_state.get(_KEY, [])
    return entries


def clear() -> None:
    """Forget everything."""
    st.session_state[_KEY] = []


def newest(entries: Iterable[Entry]) -> list[Entry]:
    """Return entries newest first, the newest of each query only."""
    by_query: dict[tuple[str, str], Entry] = {}
    for entry in sorted(entries, key=lambda entry: -entry.at):
        by_query.setdefault((entry.model, entry.smiles), entry)
    return list(by_query.values())
