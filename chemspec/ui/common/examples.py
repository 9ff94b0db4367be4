"""Named reactions to try with one click."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

import streamlit as st

from chemspec import chem
from chemspec.asset_files import assets
from chemspec.settings import Task
from chemspec.ui.common import scheme, theme
from chemspec.ui.common.web_files import web_file
from chemspec.ui.predict import ask

CSS = web_file(__file__, "css")


@dataclass(frozen=True)
class Example:
    """A query for one task, its name and a line of explanation."""

    task: Task
    name: str
    line: str
    smiles: str


@cache
def load() -> tuple[Example, ...]:
    """Return the examples that come with the program."""
    items = json.loads((assets() / "examples" / "gallery.json").read_text(encoding="utf-8"))
    return tuple(Example(**item) for item in items)


def gallery(task: Task, *, columns: int = 3) -> None:
    """Draw cards of examples; a click asks."""
    chosen = [item for item in load() if item.task == task]
    for first in range(0, len(chosen), columns):
        row = st.columns(columns, gap="medium")
        for place, item in zip(row, chosen[first : first + columns], strict=False):
            with place.container(border=True, height="stretch", key=f"predict_card_{item.name}"):
                drawing = scheme.molecules(chem.canonical(item.smiles) or "", dark=theme.dark())
                st.html(f'<div class="cs-example">{drawing}</div>')
                st.button(
                    item.name,
                    key=f"predict_example_{item.name}",
                    on_click=ask.put,
                    args=(item.smiles, item.task),
                    width="stretch",
                )
                st.caption(item.line)
