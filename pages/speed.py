"""Speed."""

import streamlit as st

from chemspec.ui import nav


def body() -> None:
    st.title("Speed")


nav.page(body)
