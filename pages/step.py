"""Step through a decode, pass by pass."""

from collections.abc import Mapping, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from chemspec.engine.engine import Engine
from chemspec.engine.forks import token_alternatives
from chemspec.replay.trace_view import view_trace
from chemspec.types import DecodeResult, to_json
from chemspec.ui.common import escaping, nav, queued_engine
from chemspec.ui.step import progress_charts, question_form, trace_player


def draw_page() -> None:
    """Draw the page."""
    title, saving, opening = st.columns([5, 1.2, 1.6], vertical_alignment="center")
    title.title("Step through")
    with opening:
        question_form.show_upload()
    names = queued_engine.model_names()
    shown = question_form.current_question(names)
    if shown is None:
        st.markdown(question_form.INTRODUCTION)
    elif isinstance(shown, DecodeResult):
        show_trace(shown, saving)
    else:
        answer_question(shown, saving)


def answer_question(question: question_form.Question, saving: DeltaGenerator) -> None:
    """Ask the model and show what it did, or what is wrong with the query."""
    engine = queued_engine.require_engine(question.model)
    line = st.empty()
    try:
        result = queued_engine.cached_prediction(engine, question.query, question.settings, report=line.caption)
    except ValueError as error:  # as for drafts that are longer than the drafter can write
        line.empty()
        st.error(f"These settings are not supported: {escaping.plain_text(str(error))}")
        return
    line.empty()
    if result.status == "ok":
        show_trace(result, saving, engine, question)
    else:
        st.error(f"This query cannot be answered: {escaping.plain_text(result.message)}.")


def token_odds(
    engine: Engine | None, question: question_form.Question | None, result: DecodeResult
) -> Sequence[Mapping[str, float]]:
    """Return the model's probabilities along a greedy answer; none for a beam, a file or a service."""
    best = result.hypotheses[0] if result.hypotheses else None
    if question is None or question.settings.decoder != "greedy" or best is None or best.ended != "eos":
        return ()
    if not isinstance(engine, Engine):
        return ()

    def look() -> list[dict[str, float]]:
        with queued_engine.shared_queue().wait_for_turn():
            return token_alternatives(engine, question.query, best)

    return queued_engine.session_cached("_odds", (engine.digest, engine.dtype, question.query, best.smiles), look)


def relaxed_note(result: DecodeResult, slow: DecodeResult | None) -> str:
    """Return what relaxed means, and how the answers compare with those of the standard way, where it was run."""
    about = "Relaxed: the drafts can change the answers."
    if slow is None or not slow.hypotheses:
        return about
    texts, standard = ([answer.smiles for answer in run.hypotheses] for run in (result, slow))
    if len(texts) > 1 or len(standard) > 1:
        same = len(set(texts) & set(standard))
        return f"{about} Here {same} of {len(texts)} are answers of the standard beam search too."
    if texts == standard:
        return f"{about} Here the answer is that of greedy decoding."
    return f"{about} Here greedy decoding writes {escaping.plain_text(standard[0])} instead."


def show_trace(
    result: DecodeResult,
    saving: DeltaGenerator,
    engine: Engine | None = None,
    question: question_form.Question | None = None,
) -> None:
    """Draw the trace player, the file to save, the charts."""
    try:
        view = view_trace(result, token_odds(engine, question, result))
    except ValueError as error:
        st.error(f"This trace cannot be shown: {escaping.plain_text(str(error))}.")
        return
    text, name, kind = to_json(result), "chemspec-trace.json", "application/json"
    saving.download_button("Save trace", text, name, kind, on_click="ignore", width="stretch")
    if question is None:
        st.caption("Opened from a file. Its model, settings and times are those of the machine that saved it.")
    measured = progress_charts.measure_runs(engine, question.query, question.settings) if engine and question else ()
    fast, slow = measured or (None, None)
    if view.relaxed:
        st.caption(relaxed_note(result, slow))
    trace_player.show_player(result, view, progress_charts.believable_times(fast, slow))
    time, offsets = st.columns(2)
    with offsets:
        st.markdown("##### Acceptance rate by draft position")
        progress_charts.draw_acceptance_by_offset(view)
    with time:
        st.markdown("##### Against time")
        progress_charts.draw_against_time(view, fast or result, slow)


nav.run_page(draw_page)
