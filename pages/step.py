"""Step through."""

import streamlit as st

from chemspec.ui import nav


def body() -> None:
    st.title("Step through")


nav.page(body)
