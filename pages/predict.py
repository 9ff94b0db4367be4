"""The page Predict: products or precursors as cards, with evidence for and against each."""

from html import escape

import streamlit as st

from chemspec.engine.engine import Engine, models_dir
from chemspec.model.checkpoint import CheckpointError
from chemspec.settings import Task
from chemspec.types import DecodeResult
from chemspec.ui.common import nav, queued_engine, remote_engine, scheme, widgets
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.predict import card_view, history, pass_totals, progress, query_panel, reviewing, token_origins
from chemspec.ui.predict.gallery import show_example, show_gallery, show_strengths
from chemspec.ui.predict.query_panel import Panel, Question

NO_MODEL = (
    "No model for this question is installed. Put a model folder into `{home}`, or train one with "
    "`chemspec train`; the page *Models* says more."
)


def draw_page() -> None:
    """Draw the page."""
    st.html(f"<style>{scheme.CSS}{card_view.CSS}</style>")
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
        elif model := load_or_explain(question.model):
            answer_question(panel, question, model)
    with panel.tools:
        query_panel.show_history_menu()


def is_new_target(question: Question) -> bool:
    """Return whether the page showed another query before: the drawing of the same one stays until it is replaced."""
    before, _ = st.session_state.get("predict_stage", (None, 0))
    return not isinstance(before, Question) or before.smiles != question.smiles


def show_welcome(task: Task) -> None:
    """Show the start page: a recorded example and queries to try."""
    st.html(
        '<p class="cs-lead">Predict what a reaction gives, or how to make a molecule. '
        f"{escape(remote_engine.privacy_note())}</p>"
    )
    if queued_engine.model_names(task):
        show_example(task)
        show_strengths(task)
        st.html("<h2>More examples</h2>")
        show_gallery(task)
    else:
        st.info(NO_MODEL.format(home=models_dir()))


def load_or_explain(name: str) -> Engine | None:
    """Return the engine, or a message that says what is wrong with the model."""
    try:
        return queued_engine.load_engine(name)
    except (CheckpointError, ValueError) as error:
        st.error(f"The model {plain_text(name)} cannot be used: {plain_text(str(error))}")
        return None


def answer_question(panel: Panel, question: Question, model: Engine) -> None:
    """Predict and show the answers; a beam shows the first one, decoded greedily, while it looks for the others."""
    answers = progress.predict_with_progress(
        model,
        question.smiles,
        question.settings,
        first=token_origins.greedy_settings(question.settings),
        preview=lambda first: card_view.preview_answer(question, first),
    )
    if answers is None:
        if not panel.stale:
            panel.draw_query()
        return
    result, first = answers
    history.add_to_history(question.model, question.smiles, result)
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
        shown = cards[: question.cards]
        colours, rank = token_origins.coloured_query(question.smiles, first, shown)
        panel.draw_query([card.step.made for card in shown if card.step], colours, rank)
    with st.container(horizontal=True, vertical_alignment="center", key="predict_title"):
        st.html(f'<div role="status"><h2>{card_view.answers_heading(question, cards)}</h2></div>', width="stretch")
        files = st.popover("Save or share", on_change="rerun", key=f"predict_save_{question.key}", type="tertiary")
    if files.open:
        with files:
            card_view.share_answers(question, reviewing.review_for_files(question, result).suggestions, result)
    if panel.stale:
        st.html('<div class="cs-banner" role="status">These answers belong to an earlier query; predict again.</div>')
    card_view.show_answers(question, result, cards, first)
    pass_totals.show_totals(question, result, first, cards)


nav.run_page(draw_page)
