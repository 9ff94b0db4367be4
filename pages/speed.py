"""Measure what drafts gain: a race on one query."""

import streamlit as st

from chemspec.ui.common import nav, queued_engine, served
from chemspec.ui.speed import question, race_page


def body() -> None:
    """Draw the page."""
    st.title("Speed")
    st.caption("What drafts gain, measured on this server while you wait.")
    served.tell_local()
    name = question.model_name()
    if not name:
        st.info("No model is installed yet. The page Models says how to add one.")
        return
    model = queued_engine.need(name, here=True)
    if query := question.query(model):
        race_page.show_race_page(model, query)


nav.page(body)
