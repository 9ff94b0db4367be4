"""The installed models: what they are, how good, what they need, and what is wrong with a broken one."""

import streamlit as st

from chemspec.engine.engine import models_dir
from chemspec.system import gpu
from chemspec.ui.common import escaping, nav, queued_engine
from chemspec.ui.common.web_files import web_file
from chemspec.ui.learn.lessons import text_sections
from chemspec.ui.models import cards


def draw_page() -> None:
    """Draw the page."""
    st.title("Models")
    st.markdown("What each model is for, how often it is right on reactions that it never saw, and where it fails.")
    for title, text in text_sections("faq")[:2]:  # on trust
        st.expander(title).markdown(text)
    waiting = st.empty()
    with waiting.container():
        st.caption("Reading the cards of the installed models …")
        st.skeleton(height=400)
    folders = cards.list_model_cards()
    waiting.empty()
    if not folders:
        st.info("No model is installed. Train one with `chemspec train`, or add a folder as described below.")
    if unused := gpu.unused_gpu_message():
        st.info(escaping.plain_text(f"{unused[0].upper()}{unused[1:]}."))
    for card in folders:
        with st.container(border=True):
            show_broken_model(card) if card.problem else show_usable_model(card)
    with st.expander("Add a model", expanded=not folders):
        st.markdown(web_file("model_figures.md"))
        st.caption("Models are looked for in this folder:")
        st.code(str(models_dir()), language=None)


def show_broken_model(card: cards.ModelCard) -> None:
    """Say what is wrong with a model folder."""
    cards.show_heading(card)
    st.markdown("This folder is no usable model; nothing else is affected. What is wrong with it:")
    st.code(card.problem, language=None, wrap_lines=True)
    st.caption("Put the right files there, or take the folder away; the page looks again at every visit.")


def show_usable_model(card: cards.ModelCard) -> None:
    """Draw the card of a model: facts, accuracy, text, speed."""
    engine = queued_engine.loaded_engines().get(card.folder)
    engine = engine if engine and engine.digest == card.digest else None
    cards.show_heading(card)
    if strengths := dict(text_sections("strengths")).get(card.name):
        st.markdown(strengths)
    st.markdown(cards.facts_table(card, engine))
    if card.accuracy:
        st.caption("With 95 % intervals, on the test reactions named under **Accuracy** below.")
    if card.task == "forward":
        st.caption(cards.describe_trap_score())
    parts = [*card.sections, ("Speed here", "")]
    if card.classes:
        note = "Test reactions by the class that the recorded reaction has; classes with fewer than ten are left out."
        parts.insert(1, ("Accuracy by class", f"{note}\n\n{cards.class_table(card)}"))
    tabs = st.tabs([escaping.plain_text(name or "About") for name, _ in parts])
    for tab, (_, text) in zip(tabs, parts, strict=True):
        tab.markdown(escaping.without_images(text, under=3))
    cost = cards.describe_cost(engine.cost()) if engine else "Measured when the model is loaded."
    tabs[-1].markdown(cost)


nav.run_page(draw_page)
