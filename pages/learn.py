"""Learn."""

import streamlit as st

from chemspec.ui import nav


def body() -> None:
    st.title("Learn")


nav.page(body)
