"""Step through a decode, pass by pass."""

from collections.abc import Mapping, Sequence

import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.engine.forks import token_alternatives
from chemspec.replay.choices import describe_choices
from chemspec.replay.trace_view import view_trace
from chemspec.types import DecodeResult, to_json
from chemspec.ui.common import escaping, nav, queued_engine
from chemspec.ui.step import attention_view, question_form, trace_player


def draw_page() -> None:
    """Draw the page."""
    st.title("Step through")
    question = question_form.current_question(queued_engine.model_names())
    if question is None:
        st.markdown(question_form.INTRODUCTION)
        return
    engine = queued_engine.require_engine(question.model)
    line = st.empty()
    try:
        result = queued_engine.cached_prediction(engine, question.query, question.settings, report=line.caption)
    except ValueError as error:  # as for drafts that are longer than the drafter can write
        line.empty()
        st.error(f"These settings are not supported: {escaping.plain_text(str(error))}")
        return
    line.empty()
    if result.status != "ok":
        st.error(f"This query cannot be answered: {escaping.plain_text(result.message)}.")
        return
    view = view_trace(result, token_odds(engine, question, result))
    if view.relaxed:
        st.caption("Relaxed: the drafts can change the answers.")
    if not (view.several or view.relaxed) and (words := describe_choices(view, engine.task)):
        st.caption(escaping.plain_text(f"{words}."))
    trace_player.show_player(result, view)
    attention_view.show_attention(engine, question, result)
    with st.container(horizontal=True, gap="small", key="step_more"):
        st.download_button(
            "Download JSON", to_json(result), "chemspec-trace.json", "application/json", on_click="ignore"
        )
        if st.button("The story of this query", key="step_story", help="How it works, told of its first answer"):
            nav.open_page("learn", task=question.model, smi=question.query)


def token_odds(
    engine: Engine, question: question_form.StepQuestion, result: DecodeResult
) -> Sequence[Mapping[str, float]]:
    """Return the model's probabilities along a greedy answer; none for a beam."""
    best = result.hypotheses[0]
    if question.settings.decoder != "greedy" or best.ended != "eos":
        return ()

    def look() -> list[dict[str, float]]:
        with queued_engine.shared_queue().wait_for_turn():
            return token_alternatives(engine, question.query, best)

    return queued_engine.session_cached("_odds", (engine.full_digest, engine.dtype, question.query, best.smiles), look)


nav.run_page(draw_page)
