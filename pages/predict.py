"""Ask a model one question."""

import streamlit as st

from chemspec.engine import Engine, installed
from chemspec.settings import DecodeSettings

st.title("chemspec")
names = [folder.name for folder in installed()]
if not names:
    st.info(
        "No model is installed yet. Train one with `chemspec train`, or put a model folder into assets/models."
    )
    st.stop()
load = st.cache_resource(Engine.load)
task = st.segmented_control("Question", names, default=names[0]) or names[0]
query = st.text_input("SMILES", help="Reactants and reagents for forward, a product for retro.")
if query:
    result = load(task).predict([query], DecodeSettings(n=5))[0]
    for note in result.notes:
        st.caption(note)
    if result.status == "ok":
        st.dataframe(
            [
                {"answer": item.canonical or item.smiles, "probability": item.probability}
                for item in result.hypotheses
            ]
        )
    else:
        st.error(result.message)
