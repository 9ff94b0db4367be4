"""What is measured on the page Speed: a model and a query, from the box, an example or the link."""

from __future__ import annotations

import streamlit as st

from chemspec import chem
from chemspec.chem import formats
from chemspec.engine.engine import Engine
from chemspec.ui.common import escaping, examples, queued_engine, widgets
from chemspec.ui.common.query_box import (
    TASK_LABELS,
    QueryText,
    fault_html,
    linked_query,
    reading_html,
    warn_unknown_model,
)

BOX = QueryText("speed")


def choose_model() -> str:
    """Draw the choice of a model and return its name, at first the retro model; empty if none is installed."""
    names = queued_engine.model_names(here=True)
    if not names:
        return ""
    _follow_link(names)
    state = st.session_state
    if state.get("speed_model") not in names:
        state.speed_model = "retro" if "retro" in names else names[0]  # where most of an answer is copied
    return widgets.segmented_choice(
        "Question",
        names,
        format_func=_model_label,
        key="speed_model",
        hidden=True,
        persist_state="session",
        on_change=_model_changed,
    )


def _model_label(name: str) -> str:
    """Return the question that a model answers, of a second model with its name."""
    task = queued_engine.task_of_model(name) or ""
    return TASK_LABELS.get(name) or f"{task.capitalize()} by {name}".strip()


def choose_query(model: Engine) -> str:
    """Draw the query box; return the query as SMILES, or an empty text and show why the model cannot use it."""
    state = st.session_state
    if "speed_text" not in state:
        state.speed_text = examples.load_examples(model.task)[0].smiles
    text, read = BOX.show_box(model.task, on_typed=BOX.store_text, on_submit=_query_submitted)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="speed_examples"):
        st.caption("Examples", width="content")
        for example in examples.load_examples(model.task):
            key, name = f"speed_example_{example.name}", example.name
            st.button(name, key=key, help=example.line, on_click=BOX.set_text, args=(example.smiles,))
    if isinstance(read, chem.Fault):
        st.html(fault_html(text, read))
        return ""
    if reading := reading_html(read):
        st.html(reading)
    if not isinstance(read, formats.Input):
        st.info("Type or paste a molecule above, or choose an example.")
        return ""
    ready = model.prepare(read.smiles)
    if ready.refusal:
        st.error(escaping.plain_text(ready.refusal.message))
        return ""
    state.speed_link = (model.name, read.smiles)
    if dict(st.query_params) != {"task": model.name, "smi": read.smiles}:
        st.query_params.from_dict({"task": model.name, "smi": read.smiles})
    return read.smiles


def _follow_link(names: list[str]) -> None:
    """Read the address after a link was followed."""
    state = st.session_state
    linked = linked_query()
    if linked[1] and linked != state.get("speed_link"):
        state.speed_link = linked
        BOX.set_text(linked[1])
        if linked[0] in names:
            state.speed_model = linked[0]
        elif linked[0]:
            warn_unknown_model(linked[0])


def _query_submitted(text: str) -> None:
    BOX.store_text(text)
    st.session_state.speed_race_start_go = True


def _model_changed() -> None:
    """Another model: an example of the old task makes no sense for it, a visitor's own text may."""
    if st.session_state.get("speed_text") in {example.smiles for example in examples.load_examples()}:
        BOX.set_text("")
        del st.session_state["speed_text"]
