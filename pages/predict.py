"""The page Predict: products or precursors as cards, with evidence for and against each."""

from html import escape

import streamlit as st

from chemspec.engine.engine import Engine, models_dir
from chemspec.model.checkpoint import CheckpointError
from chemspec.settings import Task
from chemspec.types import DecodeResult
from chemspec.ui.common import history, nav, placeholder, progress, queued_engine, remote_engine, scheme
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.predict import (
    card_view,
    draft_picture,
    first_answer,
    pass_totals,
    query_panel,
    query_preview,
    reviewing,
    typed_reaction,
)
from chemspec.ui.predict.gallery import show_example, show_gallery, show_strengths

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
        question, stale, row = query_panel.show_query_panel()
    task = st.session_state.predict_task
    with right, placeholder.fresh_container(question or task, key="predict_stage"):
        if question is None:
            show_welcome(task)
        model = load_or_explain(question.model) if question else None
        result, first = predict_answers(question, model) if question and model else (None, None)
        if question and result:
            history.add_to_history(question.model, question.smiles, result)
        with row:
            query_panel.show_history_menu()
        if question and result:
            with st.container(key="predict_stale" if stale else "predict_fresh"):
                show_results(question, result, first, stale=stale)


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


def predict_answers(question: query_panel.Question, model: Engine) -> tuple[DecodeResult | None, DecodeResult | None]:
    """Return the answers and the first one decoded greedily, which is shown while a beam looks for the others."""
    quick = first_answer.greedy_settings(question.settings)
    made = progress.predict_with_progress(
        model,
        question.smiles,
        question.settings,
        first=quick,
        preview=lambda first: card_view.preview_answer(question, first),
    )
    return made or (None, None)


def show_results(
    question: query_panel.Question, result: DecodeResult, first: DecodeResult | None, *, stale: bool
) -> None:
    """Draw the predictions, and below them their forward passes."""
    if result.status != "ok":
        st.error(f"The model cannot answer this: {plain_text(result.message)}.")
        return
    described = None if question.expected else question.cards  # the card of a typed reaction may have any rank
    cards = reviewing.review_answers(question, result, described=described).suggestions
    question = typed_reaction.include_typed_card(question, cards)
    with st.container(horizontal=True, vertical_alignment="center", key="predict_title"):
        st.html(f'<div role="status"><h2>{card_view.answers_heading(question, cards)}</h2></div>', width="stretch")
        files = st.popover("Save or share", on_change="rerun", key=f"predict_save_{question.key}", type="tertiary")
    if files.open:
        with files:
            card_view.share_answers(question, reviewing.review_for_files(question, result).suggestions, result)
    if stale:
        st.html('<div class="cs-banner" role="status">These answers belong to an earlier query; predict again.</div>')
    card_view.show_answers(question, result, cards, first)
    pass_totals.show_totals(question, result, first, cards)
    # The panel, drawn before, has the colours and marks the cuts from the next run on.
    made = [card.step.made for card in cards[: question.cards] if card.step]
    marked = (question.smiles, query_preview.numbered_bonds(made) if question.task == "retro" else ())
    before, st.session_state.predict_cuts = st.session_state.get("predict_cuts"), marked
    lacks_colours = draft_picture.store_colours(
        question, draft_picture.picture_of_greedy(first, cards[: question.cards])
    )
    if lacks_colours or (marked[1] and before != marked):
        st.rerun()


nav.run_page(draw_page)
