"""Ask a model what forms, or how a molecule is made; see answers as ideas, with what speaks for and against them."""

from html import escape

import streamlit as st

from chemspec.engine.engine import Engine, models_dir
from chemspec.model.checkpoint import CheckpointError
from chemspec.settings import Task
from chemspec.types import DecodeResult
from chemspec.ui.common import history, nav, placeholder, progress, queued_engine, scheme, served
from chemspec.ui.common.safe import plain
from chemspec.ui.predict import answers, ask, checks, first_answer, picture, totals, understood, verdicts, written
from chemspec.ui.predict.gallery import example, fit, gallery

NO_MODEL = (
    "No model for this question is installed. Put a model folder into `{home}`, or train one with "
    "`chemspec train`; the page *Models* says more."
)


def body() -> None:
    """Draw the page."""
    st.html(f"<style>{scheme.CSS}{answers.CSS}</style>")
    left, right = st.columns([1, 3], gap="medium")
    with left, st.container(key="predict_panel"):
        st.title("Predict", anchor=False)
        asked, stale, row = ask.ask()
    task = st.session_state.predict_task
    with right, placeholder.container(asked or task, key="predict_stage"):
        if asked is None:
            welcome(task)
        model = load(asked.model) if asked else None
        result, first = answer(asked, model) if asked and model else (None, None)
        if asked and result:
            history.add_to_history(asked.model, asked.smiles, result)
        with row:
            ask.history_menu()
        if asked and result:
            with st.container(key="predict_stale" if stale else "predict_fresh"):
                show(asked, result, first, stale=stale)


def welcome(task: Task) -> None:
    """Show what one sees before the first question."""
    st.html(
        f'<p class="cs-lead">Predict what a reaction gives, or how to make a molecule. {escape(served.where())}</p>'
    )
    if queued_engine.models(task):
        example(task)
        fit(task)
        st.html("<h2>More examples</h2>")
        gallery(task)
    else:
        st.info(NO_MODEL.format(home=models_dir()))


def load(name: str) -> Engine | None:
    """Return the engine, or a message that says what is wrong with the model."""
    try:
        return queued_engine.engine(name)
    except (CheckpointError, ValueError) as error:
        st.error(f"The model {plain(name)} cannot be used: {plain(str(error))}")
        return None


def answer(asked: ask.Asked, model: Engine) -> tuple[DecodeResult | None, DecodeResult | None]:
    """Return the answers and the first one decoded greedily, which is shown while a beam looks for the others."""
    quick = first_answer.greedy(asked.settings)
    made = progress.answer(
        model, asked.smiles, asked.settings, first=quick, preview=lambda first: answers.preview(asked, first)
    )
    return made or (None, None)


def show(asked: ask.Asked, result: DecodeResult, first: DecodeResult | None, *, stale: bool) -> None:
    """Draw the answers; below them, small, how they were made."""
    if result.status != "ok":
        st.error(f"The model cannot answer this: {plain(result.message)}.")
        return
    found = verdicts.cards(asked.task, asked.smiles, result)
    if asked.task == "retro" and (names := queued_engine.models("forward")) and (forward := load(names[0])):
        found = checks.add_forward_checks(asked, found, forward)
    asked = written.with_card(asked, found)
    with st.container(horizontal=True, vertical_alignment="center", key="predict_title"):
        st.html(f'<div role="status"><h2>{answers.heading(asked, found)}</h2></div>', width="stretch")
        files = st.popover("Save or share", on_change="rerun", key="predict_save", type="tertiary")
    if files.open:
        with files:
            answers.share(asked, found, result)
    if stale:
        st.html('<div class="cs-banner" role="status">These answers are to the question before; ask again.</div>')
    answers.show(asked, result, found, first)
    totals.show(asked, result, first, found)
    # The panel, drawn before, has the colours and marks the cuts from the next run on.
    made = [card.change.made for card in found[: asked.cards] if card.change]
    marked = (asked.smiles, understood.cuts(made) if asked.task == "retro" else ())
    before, st.session_state.predict_cuts = st.session_state.get("predict_cuts"), marked
    lacks_colours = picture.remember(asked, picture.of(first, found[: asked.cards]))
    if lacks_colours or (marked[1] and before != marked):
        st.rerun()


nav.page(body)
