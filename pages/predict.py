"""The page Predict: products or precursors as cards, with evidence for and against each."""

from collections.abc import Sequence

import streamlit as st

from chemspec.depict.molecules import Bonds
from chemspec.engine.engine import Engine, models_dir
from chemspec.engine.registry import model_folder
from chemspec.review.suggestions import Suggestion
from chemspec.settings import Task
from chemspec.types import DecodeResult
from chemspec.ui.common import nav, queued_engine, scheme, widgets
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.predict import answers, query_panel, reviewing
from chemspec.ui.predict.gallery import show_example, show_gallery
from chemspec.ui.predict.query_panel import Question

NO_MODEL = (
    "No model for this question is installed. Put a model folder into `{home}`, or train one with "
    "`chemspec train`; the page *Models* says more."
)


def draw_page() -> None:
    """Draw the page."""
    st.html(f"<style>{scheme.CSS}{answers.CSS}</style>")
    left, right = st.columns([1, 3], gap="medium")
    with left, st.container(key="predict_panel"):
        st.title("Predict", anchor=False)
        panel = query_panel.show_query_panel()
    question = panel.question
    if question and is_new_target(question) and not panel.stale:
        panel.draw_still_query()
    made: list[Bonds] = []
    with right, widgets.fresh_container(question or panel.task, key="predict_stage"):
        if question is None:
            show_welcome(panel.task)
        elif model := load_with_placeholder(question.model):
            made = answer_question(question, model, stale=panel.stale)
    panel.draw_query([] if panel.stale else made)


def load_with_placeholder(name: str) -> Engine | None:
    """Return the engine of a model; while it is loaded, at a server's first question, draw what is coming."""
    waiting = st.empty()
    if model_folder(name) not in queued_engine.loaded_engines():
        waiting.skeleton(height=320)
    model = queued_engine.engine_or_message(name)
    waiting.empty()
    return model


def is_new_target(question: Question) -> bool:
    """Return whether the page showed another query before: the drawing of the same one stays until it is replaced."""
    before, _ = st.session_state.get("predict_stage", (None, 0))
    return not isinstance(before, Question) or before.smiles != question.smiles


def show_welcome(task: Task) -> None:
    """Show the start page: a recorded example and queries to try."""
    where = "It is computed where this app runs, and sent nowhere else."
    st.markdown(f"Predict what a reaction gives, or how to make a molecule. {where}")
    if queued_engine.model_names(task):
        show_example(task)
        st.html("<h2>More examples</h2>")
        show_gallery(task)
    else:
        st.info(NO_MODEL.format(home=models_dir()))


def answer_question(question: Question, model: Engine, *, stale: bool) -> list[Bonds]:
    """Predict and show the answers, dimmed if they are `stale`; return the bonds that each card makes."""
    slot = st.empty()
    predicted = answers.predict_with_progress(model, question, slot)
    if predicted is None:
        return []
    result, first = predicted
    described = None if question.expected else question.cards  # the card of a typed reaction may have any rank
    cards = reviewing.review_answers(question, result, described=described).suggestions if result.status == "ok" else []
    slot.empty()
    with st.container(key="predict_stale" if stale else "predict_fresh"):
        return show_results(question, result, first, cards, stale=stale)


def show_results(
    question: Question, result: DecodeResult, first: DecodeResult | None, cards: Sequence[Suggestion], *, stale: bool
) -> list[Bonds]:
    """Draw the predictions, and below them how the searches went; return the bonds that each card makes."""
    if result.status != "ok":
        st.error(f"The model cannot answer this: {plain_text(result.message)}.")
        return []
    question = reviewing.include_typed_card(question, cards)
    answers.show_title(question, result, cards)
    if stale:
        st.warning("These answers belong to an earlier query; predict again.")
    answers.show_answers(question, result, cards, first)
    answers.show_searches(question, result, first, cards)
    return [card.step.made for card in cards[: question.cards] if card.step]


nav.run_page(draw_page)
