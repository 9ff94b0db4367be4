"""Measure what drafts gain: a race on one query, draft sizes, and many queries."""

import streamlit as st

from chemspec.ui import nav, question, serve, speed, tables


def body() -> None:
    st.title("Speed")
    st.caption("What drafts gain, measured on this server while you wait.")
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        part = st.segmented_control(
            "What to measure",
            list(speed.PARTS),
            default=next(iter(speed.PARTS)),
            key="speed_part",
            required=True,
            label_visibility="collapsed",
            persist_state="session",
        )
        name = question.model_name()
    if not name:
        st.info("No model is installed yet. The page Models says how to add one.")
        return
    model = serve.engine(name)
    st.html(f"<style>{tables.CSS}</style>")
    query = question.query(model) if part in speed.ON_A_QUERY else ""
    if query or part not in speed.ON_A_QUERY:
        speed.PARTS[part](model, query)


nav.page(body)
