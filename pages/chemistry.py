"""The page Your chemistry: what can be made from the shelf, and models of own reactions."""

import streamlit as st

from chemspec.ui.batch import job_view
from chemspec.ui.common import nav, widgets
from chemspec.ui.own import making, teaching


def draw_page() -> None:
    """Draw the page."""
    st.title("Your chemistry", anchor=False)
    st.html(job_view.STYLE.replace("batch_", "own_"))
    PARTS[widgets.segmented_choice("Part", PARTS, key="part", bind="query-params", hidden=True)]()


PARTS = {"Make from my shelf": making.show_making, "Learn from my reactions": teaching.show_teaching}
nav.run_page(draw_page)
