"""Queries of this visit; visitors of one server do not see each other's."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from chemspec.types import DecodeResult

MAX_ENTRIES = 20
_KEY = "history_entries"


@dataclass(frozen=True)
class Entry:
    """An answered query: model, canonical SMILES, its best answer."""

    model: str
    smiles: str
    answer: str


def add_to_history(model: str, smiles: str, result: DecodeResult) -> None:
    """Put an answered query on top of the list, in place of an older entry of the same query."""
    if result.hypotheses:
        best = result.hypotheses[0]
        others = [entry for entry in recent_queries() if (entry.model, entry.smiles) != (model, smiles)]
        entry = Entry(model, smiles, best.canonical or best.smiles)
        st.session_state[_KEY] = [entry, *others][:MAX_ENTRIES]


def recent_queries() -> list[Entry]:
    """Return the list, newest first."""
    entries: list[Entry] = st.session_state.get(_KEY, [])
    return entries


def clear_history() -> None:
    """Empty the list."""
    st.session_state[_KEY] = []
