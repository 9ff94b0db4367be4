"""Examples: one already answered, from a file, and cards to try with one click."""

from __future__ import annotations

from functools import cache

import streamlit as st

from chemspec import chem
from chemspec.asset_files import assets
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult, result_from_json
from chemspec.ui.common import examples, scheme, theme
from chemspec.ui.predict import answers, ask, verdicts

COLUMNS = 3


def gallery(task: Task) -> None:
    """Draw the examples for a task; a click asks."""
    chosen = examples.load(task)
    for first in range(0, len(chosen), COLUMNS):
        for place, item in zip(st.columns(COLUMNS, gap="medium"), chosen[first : first + COLUMNS], strict=False):
            with place.container(border=True, height="stretch", key=f"predict_card_{item.name}"):
                drawing = scheme.molecules(chem.canonical(item.smiles) or "", dark=theme.dark())
                st.html(f'<div class="cs-example">{drawing}</div>')
                key, asked = f"predict_example_{item.name}", (item.smiles, task)
                st.button(item.name, key=key, on_click=ask.put, args=asked, width="stretch")
                st.caption(item.line)


@cache
def recorded(task: Task) -> DecodeResult:
    """Return the answer to the example of a task, as the shipped model gave it."""
    return result_from_json((assets() / "examples" / f"answered_{task}.json").read_text(encoding="utf-8"))


def example(task: Task) -> None:
    """Draw an example that was answered before; nothing is decoded."""
    result = recorded(task)
    asked = ask.Asked(task, task, result.query, DecodeSettings(), cards=3 if task == "retro" else 1)
    found = verdicts.cards(task, result.query, result)
    with st.container(horizontal=True, vertical_alignment="center", key="predict_title"):
        st.html(f"<h2>An example, answered: {answers.heading(asked, found)}</h2>", width="stretch")
        st.button("Ask it", key="predict_ask_example", type="tertiary", on_click=ask.put, args=(result.query, task))
    if task == "retro":
        st.html(f'<div class="cs-scheme cs-tight">{scheme.figure(result.query, dark=theme.dark())}</div>')
    answers.show(asked, result, found, still=True)
