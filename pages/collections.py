"""Answers that somebody kept: searched, with notes and a status, to take away as a table."""

import streamlit as st

from chemspec.ui.collect import view
from chemspec.ui.common import nav, scheme
from chemspec.ui.predict import answers


def body() -> None:
    """Draw the page."""
    st.html(f"<style>{scheme.CSS}{answers.CSS}</style>")
    st.title("Collections", anchor=False)
    view.show()


nav.page(body)
