"""Examples: a recorded prediction, and queries to try with one click."""

from __future__ import annotations

from functools import cache

import streamlit as st

from chemspec import chem
from chemspec.asset_files import assets_folder
from chemspec.depict.molecules import NO_COLOURS, Depiction
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult, result_from_json
from chemspec.ui.common import nav, query_box, scheme, theme
from chemspec.ui.predict import card_view, query_panel, reviewing, token_origins

COLUMNS = 3


def show_gallery(task: Task) -> None:
    """Draw the examples of a task; a click predicts."""
    chosen = query_box.load_examples(task)
    for first in range(0, len(chosen), COLUMNS):
        for column, item in zip(st.columns(COLUMNS, gap="medium"), chosen[first : first + COLUMNS], strict=False):
            with column.container(border=True, height="stretch", key=f"predict_card_{item.name}"):
                drawing = scheme.molecules_html(chem.canonical(item.smiles) or "", dark=theme.is_dark())
                st.html(f'<div class="cs-example">{drawing}</div>')
                key, arguments = f"predict_example_{item.name}", (item.smiles, task)
                st.button(item.name, key=key, on_click=query_panel.submit_text, args=arguments, width="stretch")
                st.caption(item.line)


@cache
def recorded_answer(task: Task, kind: str = "answered") -> DecodeResult:
    """Return the recorded prediction of the shipped model for a task's example.

    Args:
        task: of the example.
        kind: "answered" for the search for several answers, "first" for the first one, decoded greedily.
    """
    return result_from_json((assets_folder() / "examples" / f"{kind}_{task}.json").read_text(encoding="utf-8"))


def show_example(task: Task) -> None:
    """Draw the recorded example; nothing is decoded."""
    result, first = recorded_answer(task), recorded_answer(task, "first")
    question = query_panel.Question(task, task, result.query, DecodeSettings(), cards=3 if task == "retro" else 1)
    cards = reviewing.review_unchecked(question, result).suggestions
    with st.container(horizontal=True, vertical_alignment="center", key="predict_title"):
        st.html(f"<h2>An example: {card_view.answers_heading(question, cards)}</h2>", width="stretch")
        st.button(
            "Ask it",
            key="predict_ask_example",
            type="tertiary",
            on_click=query_panel.submit_text,
            args=(result.query, task),
        )
    if task == "retro":
        drawn = token_origins.picture_of_greedy(first, cards)
        origins_of_query = token_origins.query_colouring(drawn.view, result.query) if drawn else None
        target = scheme.molecule_figure(
            Depiction(result.query, dark=theme.is_dark(), colouring=origins_of_query or NO_COLOURS)
        )
        st.html(f'<div class="cs-scheme cs-tight">{target}</div>')
    card_view.show_answers(question, result, cards, first, still=True)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="predict_faster"):
        st.html(
            '<p class="cs-why-fast"><b>Several times fewer model runs, not one token changed</b>: a run checks a whole '
            "piece copied from your question.</p>",
            width="content",
        )
        if st.button("See how", key="predict_see_how", type="tertiary"):
            nav.open_page("step", task=task, smi=result.query, decoder="greedy", n="1", drafts="auto")


STRENGTHS = {
    "forward": (
        "couplings, amides, protection and its removal, substitution, oxidation and reduction of small molecules; "
        "about 3 of 4 first answers are right on patent reactions it never saw.",
        "metathesis, click, Diels–Alder, Fmoc removal, E or Z, temperature, time and amounts; it does not notice a "
        "missing catalyst.",
    ),
    "retro": (
        "the last step of drug-like targets: amides, amines, biaryls, ethers, protecting groups; about half of the "
        "first ideas are those of the record.",
        "natural products, macrocycles, organometallics, and whether a step works in your hands: it knows no yields.",
    ),
}


def show_strengths(task: Task) -> None:
    """Show strengths and limits of the shipped model in two lines."""
    good, bad = STRENGTHS[task]
    st.html(f'<p class="cs-fit"><span><b>Good for</b> {good}</span><span><b>Not for</b> {bad}</span></p>')
