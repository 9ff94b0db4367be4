"""A page for tests: a text box and the sketcher, counting its runs and what is drawn; or a 3-D view of `model`."""

from __future__ import annotations

import streamlit as st

from chemspec.ui.common import web_files
from chemspec.ui.predict import sketcher, view3d

st.set_page_config(page_title="sketcher")
state = st.session_state
state["runs"] = state.get("runs", 0) + 1
text = st.text_input("SMILES", "CCO")
if shown := st.query_params.get("model"):
    view3d.show_3d_model(shown, key="model")
elif web_files.part_folder("ketcher"):
    drawn = sketcher.show_sketcher(text, key="sketch")
    st.code(f"{state['runs']}|{drawn}", language=None)
else:
    st.caption(web_files.missing_reason("ketcher"))
