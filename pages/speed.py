"""Measure what drafts gain: a race on one query."""

import streamlit as st

from chemspec.ui.common import nav, queued_engine
from chemspec.ui.speed import race_page


def draw_page() -> None:
    """Draw the page."""
    st.title("Speed")
    st.caption(
        "Times your question with and without drafts: pieces copied from the query, several of which the model checks "
        "in one pass. A pass is one call of the network; without drafts it writes one token, such as an atom or a bond."
    )
    name = race_page.choose_model()
    if not name:
        st.info("No model is installed yet. The page Models says how to add one.")
        return
    model = queued_engine.require_engine(name)
    if query := race_page.choose_query(model):
        race_page.show_race_page(model, query)


nav.run_page(draw_page)
