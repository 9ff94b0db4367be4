"""A page for tests: a text box and the sketcher, counting its runs and what is drawn."""

from __future__ import annotations

import streamlit as st

from chemspec.ui.common import web_files
from chemspec.ui.predict import sketcher

st.set_page_config(page_title="sketcher")
state = st.session_state
state["runs"] = state.get("runs", 0) + 1
text = st.text_input("SMILES", "CCO")
if missing := web_files.missing_sketcher():
    st.caption(missing)
else:
    drawn = sketcher.show_sketcher(text, key="sketch")
    st.code(f"{state['runs']}|{drawn}", language=None)
