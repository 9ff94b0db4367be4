"""Models."""

import streamlit as st

from chemspec.ui import nav


def body() -> None:
    st.title("Models")


nav.page(body)
