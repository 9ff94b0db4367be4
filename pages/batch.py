"""Batch."""

import streamlit as st

from chemspec.ui import nav


def body() -> None:
    st.title("Batch")


nav.page(body)
