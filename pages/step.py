"""Step through a decode, pass by pass."""

from collections.abc import Mapping, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from chemspec.engine.engine import Engine
from chemspec.engine.forks import token_alternatives
from chemspec.model.checkpoint import CheckpointError
from chemspec.types import DecodeResult, to_json
from chemspec.ui.common import nav, queued_engine, safe
from chemspec.ui.step import progress_charts, question_form, trace_player
from chemspec.ui.step.trace_view import view_trace


def body() -> None:
    """Draw the page."""
    title, saving, opening = st.columns([5, 1.2, 1.6], vertical_alignment="bottom")
    title.title("Step through")
    with opening:
        question_form.upload()
    names = queued_engine.models()
    shown = question_form.current(names)
    if shown is None:
        st.markdown(question_form.INTRODUCTION)
    elif isinstance(shown, DecodeResult):
        tell(shown, saving)
    else:
        answer(shown, saving)


def answer(asked: question_form.Question, saving: DeltaGenerator) -> None:
    """Ask the model and show what it did, or what is wrong with the query."""
    try:
        engine = queued_engine.engine(asked.model)
    except CheckpointError as error:
        st.error("The model cannot be loaded.")
        st.code(str(error), language=None, wrap_lines=True)
        return
    line = st.empty()
    try:
        result = queued_engine.answer(engine, asked.query, asked.settings, report=line.caption)
    except ValueError as error:  # as for drafts that are longer than the drafter can write
        line.empty()
        st.error(f"It cannot be written so: {safe.plain(str(error))}")
        return
    line.empty()
    if result.status == "ok":
        tell(result, saving, engine, asked)
    else:
        st.error(f"This query cannot be answered: {safe.plain(result.message)}.")


def odds(
    engine: Engine | None, asked: question_form.Question | None, result: DecodeResult
) -> Sequence[Mapping[str, float]]:
    """Return the model's probabilities along a greedy answer; none for a beam, a file or a service."""
    if not isinstance(engine, Engine) or asked is None or asked.settings.decoder != "greedy" or not result.hypotheses:
        return ()
    best = result.hypotheses[0]
    if best.ended != "eos":
        return ()

    def look() -> list[dict[str, float]]:
        with queued_engine.turns().turn():
            return token_alternatives(engine, asked.query, best)

    return queued_engine.remembered("_odds", (engine.digest, engine.dtype, asked.query, best.smiles), look)


def measured(
    engine: Engine | None, asked: question_form.Question | None
) -> tuple[DecodeResult | None, DecodeResult | None]:
    """Return the run with drafts and the standard one, measured by turns; none for a file, or where one failed."""
    if engine is None or asked is None:
        return None, None
    line = st.empty()
    try:
        return progress_charts.measured(engine, asked.query, asked.settings, report=line.caption)
    except ValueError:
        return None, None
    finally:
        line.empty()


def tell(
    result: DecodeResult,
    saving: DeltaGenerator,
    engine: Engine | None = None,
    asked: question_form.Question | None = None,
) -> None:
    """Draw the trace player, the file to save, the charts."""
    try:
        view = view_trace(result, odds(engine, asked, result))
    except ValueError as error:
        st.error(f"This trace cannot be shown: {safe.plain(str(error))}.")
        return
    text, name, kind = to_json(result), "chemspec-trace.json", "application/json"
    saving.download_button("Save trace", text, name, kind, on_click="ignore", width="stretch")
    if asked is None:
        st.caption("Opened from a file. Its model, settings and times are those of the machine that saved it.")
    fast, slow = measured(engine, asked)
    trace_player.player(result, view, progress_charts.believable(fast, slow))
    time, places = st.columns(2)
    with places:
        st.markdown("##### How far drafts hold")
        progress_charts.by_place(view)
    with time:
        st.markdown("##### Against time")
        progress_charts.against_time(view, fast or result, slow)


nav.page(body)
