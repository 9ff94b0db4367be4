"""The page Predict: products or precursors as cards, with evidence for and against each."""

import streamlit as st

from chemspec.engine.engine import Engine, models_dir
from chemspec.settings import Task
from chemspec.types import DecodeResult
from chemspec.ui.common import nav, queued_engine, scheme, widgets
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.predict import answers, pass_totals, query_panel, reviewing
from chemspec.ui.predict.gallery import show_example, show_gallery
from chemspec.ui.predict.query_panel import Panel, Question

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
    if question is None or panel.stale:
        panel.draw_query()
    elif is_new_target(question):
        panel.draw_still_query()
    with right, widgets.fresh_container(question or panel.task, key="predict_stage"):
        if question is None:
            show_welcome(panel.task)
        elif model := queued_engine.engine_or_message(question.model):
            answer_question(panel, question, model)
    with panel.tools:
        query_panel.show_history_menu()


def is_new_target(question: Question) -> bool:
    """Return whether the page showed another query before: the drawing of the same one stays until it is replaced."""
    before, _ = st.session_state.get("predict_stage", (None, 0))
    return not isinstance(before, Question) or before.smiles != question.smiles


def show_welcome(task: Task) -> None:
    """Show the start page: a recorded example and queries to try."""
    st.markdown("Predict what a reaction gives, or how to make a molecule. Runs on this machine; nothing leaves it.")
    if queued_engine.model_names(task):
        show_example(task)
        st.html("<h2>More examples</h2>")
        show_gallery(task)
    else:
        st.info(NO_MODEL.format(home=models_dir()))


def answer_question(panel: Panel, question: Question, model: Engine) -> None:
    """Predict and show the answers; a beam shows the first one, decoded greedily, while it looks for the others."""
    predicted = answers.predict_with_progress(model, question)
    if predicted is None:
        if not panel.stale:
            panel.draw_query()
        return
    result, first = predicted
    query_panel.add_to_history(question, result)
    with st.container(key="predict_stale" if panel.stale else "predict_fresh"):
        show_results(panel, question, result, first)


def show_results(panel: Panel, question: Question, result: DecodeResult, first: DecodeResult | None) -> None:
    """Draw the predictions, below them their forward passes, and in the panel the query with its numbered bonds."""
    if result.status != "ok":
        st.error(f"The model cannot answer this: {plain_text(result.message)}.")
        if not panel.stale:
            panel.draw_query()
        return
    described = None if question.expected else question.cards  # the card of a typed reaction may have any rank
    cards = reviewing.review_answers(question, result, described=described).suggestions
    question = reviewing.include_typed_card(question, cards)
    if not panel.stale:
        panel.draw_query([card.step.made for card in cards[: question.cards] if card.step])
    answers.show_title(question, result, cards)
    if panel.stale:
        st.warning("These answers belong to an earlier query; predict again.")
    answers.show_answers(question, result, cards, first)
    pass_totals.show_totals(question, result, first, cards)


nav.run_page(draw_page)
