"""Cards of examples to try with one click."""

from __future__ import annotations

import streamlit as st

from chemspec import chem
from chemspec.settings import Task
from chemspec.ui.common import examples, scheme, theme
from chemspec.ui.predict import ask

COLUMNS = 3


def gallery(task: Task) -> None:
    """Draw the examples for a task; a click asks."""
    chosen = examples.load(task)
    for first in range(0, len(chosen), COLUMNS):
        for place, example in zip(st.columns(COLUMNS, gap="medium"), chosen[first : first + COLUMNS], strict=False):
            with place.container(border=True, height="stretch", key=f"predict_card_{example.name}"):
                drawing = scheme.molecules(chem.canonical(example.smiles) or "", dark=theme.dark())
                st.html(f'<div class="cs-example">{drawing}</div>')
                key, asked = f"predict_example_{example.name}", (example.smiles, task)
                st.button(example.name, key=key, on_click=ask.put, args=asked, width="stretch")
                st.caption(example.line)
