"""Saved answers: search, notes, status, and a table to download."""

import streamlit as st

from chemspec.ui.collect import collections_view
from chemspec.ui.common import nav, scheme
from chemspec.ui.predict import answers


def draw_page() -> None:
    """Draw the page."""
    st.html(f"<style>{scheme.CSS}{answers.CSS}</style>")
    st.title("Collections", anchor=False)
    collections_view.show_collections()


nav.run_page(draw_page)
