"""Ask a model what forms, or what a molecule is made from; see the answers, and what speculation did for them."""

import streamlit as st

from chemspec.engine.engine import Engine, models_dir
from chemspec.model.checkpoint import CheckpointError
from chemspec.settings import Task
from chemspec.types import DecodeResult
from chemspec.ui.common import history, nav, placeholder, progress, queued_engine, scheme
from chemspec.ui.common.safe import plain
from chemspec.ui.predict import answers, ask
from chemspec.ui.predict.gallery import gallery

NO_MODEL = (
    "No model for this question is installed. Put a model folder into `{home}`, or train one with "
    "`chemspec train`; the page *Models* says more."
)


def body() -> None:
    """Draw the page."""
    st.html(f"<style>{scheme.CSS}{answers.CSS}</style>")
    st.title("Predict a reaction")
    asked, row = ask.ask()
    task = st.session_state.predict_task
    with placeholder.container(asked or task, key="predict_stage"):
        if asked is None:
            welcome(task)
        model = load(asked.model) if asked else None
        result = progress.answer(model, asked.smiles, asked.settings) if asked and model else None
        if asked and result:
            history.remember(asked.model, asked.smiles, result)
        with row:
            ask.history_menu()
        if asked and result:
            show(asked, result)


def welcome(task: Task) -> None:
    """Show what one sees before the first question."""
    if queued_engine.models(task):
        st.subheader("Examples")
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


def show(asked: ask.Asked, result: DecodeResult) -> None:
    """First the answers; then, in their places, what takes longer to find out."""
    if result.status != "ok":
        st.error(f"The model cannot answer this: {plain(result.message)}.")
        return
    left, right = st.columns([3, 1.4], vertical_alignment="center")
    with left:
        answers.summary(asked, result)
    with right:
        answers.toolbar(asked, result)
    slots = answers.show(asked, result)
    with st.expander("Examples"):
        gallery(asked.task)
    answers.highlight(slots)
    if asked.task == "retro" and (names := queued_engine.models("forward")):
        forward = load(names[0])
        if forward:
            answers.check(slots, forward)


nav.page(body)
