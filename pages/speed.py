"""Measure what drafts gain: a race on one query, and many queries."""

import streamlit as st

from chemspec.ui.common import nav, queued_engine, served, widgets
from chemspec.ui.speed import measurements, question


def body() -> None:
    """Draw the page."""
    st.title("Speed")
    st.caption("What drafts gain, measured on this server while you wait.")
    served.tell_local()
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        parts = measurements.PARTS
        part = widgets.choice("What to measure", parts, key="speed_part", hidden=True, persist_state="session")
        name = question.model_name()
    if not name:
        st.info("No model is installed yet. The page Models says how to add one.")
        return
    model = queued_engine.need(name, here=True)
    query = question.query(model) if part in measurements.ON_A_QUERY else ""
    if query or part not in measurements.ON_A_QUERY:
        parts[part](model, query)


nav.page(body)
