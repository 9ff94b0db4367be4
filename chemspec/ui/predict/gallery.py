"""The start page: a recorded prediction, what the model is good for, and queries to try with one click."""

from functools import cache

import streamlit as st

from chemspec import chem
from chemspec.asset_files import assets_folder
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult, result_from_json
from chemspec.ui.common import nav, query_box, scheme
from chemspec.ui.common.escaping import tag
from chemspec.ui.learn.lessons import text_sections
from chemspec.ui.predict import answers, query_panel, reviewing, token_origins

COLUMNS = 3


@cache
def recorded_answer(task: Task, kind: str = "answered") -> DecodeResult:
    """Return the recorded prediction of a task's example: "answered", several answers; "first", decoded greedily."""
    return result_from_json((assets_folder() / "examples" / f"{kind}_{task}.json").read_text(encoding="utf-8"))


def show_example(task: Task) -> None:
    """Draw the recorded example; nothing is decoded."""
    result = recorded_answer(task)
    question = query_panel.Question(task, task, result.query, DecodeSettings(), cards=3 if task == "retro" else 1)
    cards = reviewing.review_answers(question, result, described=question.cards, models=False).suggestions
    picture = token_origins.picture_of_greedy(recorded_answer(task, "first"), cards)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="predict_faster"):
        st.markdown(
            "**The first answer usually takes a third to a seventh of the passes through the model, and not a "
            "character of it changes**: one pass checks a whole piece copied from your molecules.",
            width="content",
        )
        if st.button("See how", key="predict_see_how", type="tertiary"):
            nav.open_page("learn", task=task, smi=result.query)
    with st.container(horizontal=True, vertical_alignment="center", key="predict_title"):
        st.html(tag("h2", f"Example: {answers.answers_heading(question, cards)}"), width="stretch")
        ask = (result.query, task)
        st.button(
            "Open this example", key="predict_ask_example", type="tertiary", on_click=query_panel.submit_text, args=ask
        )
    for card in cards[: question.cards]:
        answers.show_still_card(question, card, picture)
    st.caption(dict(text_sections("strengths"))[task])


def show_gallery(task: Task) -> None:
    """Draw the examples of a task; a click predicts."""
    chosen = query_box.load_examples(task)
    for first in range(0, len(chosen), COLUMNS):
        for column, item in zip(st.columns(COLUMNS, gap="medium"), chosen[first : first + COLUMNS], strict=False):
            with column.container(border=True, height="stretch", key=f"predict_card_{item.name}"):
                st.html(tag("div.cs-example", scheme.molecules_html(chem.canonical(item.smiles) or "")))
                key, ask = f"predict_example_{item.name}", (item.smiles, task)
                st.button(item.name, key=key, on_click=query_panel.submit_text, args=ask, width="stretch")
                st.caption(item.line)
