"""A page for tests: a text box and the sketcher, counting its runs and what was drawn; or a 3-D view of `model`."""

from __future__ import annotations

import time

import streamlit as st

from chemspec.ui.common import web_files
from chemspec.ui.predict import sketcher, view3d


def from_canvas(drawn: str) -> None:
    st.session_state["smiles"] = drawn


st.set_page_config(page_title="sketcher")
state = st.session_state
state.setdefault("smiles", "CCO")
state["runs"] = state.get("runs", 0) + 1
st.text_input("SMILES", key="smiles")
if shown := st.query_params.get("model"):
    view3d.show_3d_model(shown, key="model")
elif web_files.part_folder("ketcher"):
    new = sketcher.show_sketcher(state["smiles"], key="sketch", on_change=from_canvas)
    state["drawings"] = state.get("drawings", 0) + (new is not None)
    time.sleep(float(st.query_params.get("slow", 0)))
    st.button("Again")
    st.code(f"{state['runs']}|{state['drawings']}|{new}", language=None)
else:
    st.caption(web_files.missing_reason("ketcher"))
