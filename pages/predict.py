"""Ask a model one question."""

import streamlit as st

from chemspec.settings import DecodeSettings
from chemspec.ui import nav, serve


def body() -> None:
    names = serve.models()
    if not names:
        st.info(
            "No model is installed yet. Train one with `chemspec train`, or put a model folder into assets/models."
        )
        return
    name = st.segmented_control("Question", names, default=names[0]) or names[0]
    query = st.text_input("SMILES", help="Reactants and reagents for forward, a product for retro.")
    if not query:
        return
    result = serve.answer(serve.engine(name), query, DecodeSettings(n=5), report=st.empty().caption)
    if result.status != "ok":
        st.error(result.message)
        return
    st.dataframe(
        [
            {"answer": item.canonical or item.smiles, "probability": item.probability}
            for item in result.hypotheses
        ]
    )


nav.page(body)
