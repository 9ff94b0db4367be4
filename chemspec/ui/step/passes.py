"""The depth Step through of the page How it works: a search pass by pass."""

from collections.abc import Mapping, Sequence

import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.engine.forks import token_alternatives
from chemspec.replay.choices import describe_choices
from chemspec.replay.trace_view import view_trace
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, to_json
from chemspec.ui.common import escaping, queued_engine
from chemspec.ui.step import attention_view, trace_player


def show_passes(model: str, query: str, settings: DecodeSettings) -> None:
    """Search, and draw the player of its passes; where that is not possible, say why."""
    engine = queued_engine.require_engine(model)
    line = st.empty()
    try:
        result = queued_engine.cached_prediction(engine, query, settings, report=line.caption)
    except ValueError as error:  # as for drafts that are longer than the drafter can write
        line.empty()
        st.error(f"These settings are not supported: {escaping.plain_text(str(error))}")
        return
    line.empty()
    if result.status != "ok":
        st.error(f"This query cannot be answered: {escaping.plain_text(result.message)}.")
        return
    view = view_trace(result, token_odds(engine, query, settings, result))
    if view.relaxed:
        st.caption("Relaxed: the drafts can change the answers.")
    if not (view.several or view.relaxed) and (words := describe_choices(view, engine.task)):
        st.caption(escaping.plain_text(f"{words}."))
    trace_player.show_player(result, view)
    attention_view.show_attention(engine, query, result)
    st.download_button(
        "Download JSON", to_json(result), "chemspec-trace.json", "application/json", key="step_json", on_click="ignore"
    )


def token_odds(
    engine: Engine, query: str, settings: DecodeSettings, result: DecodeResult
) -> Sequence[Mapping[str, float]]:
    """Return the model's probabilities along a greedy answer; none for a beam."""
    best = result.hypotheses[0]
    if settings.decoder != "greedy" or best.ended != "eos":
        return ()

    def look() -> list[dict[str, float]]:
        with queued_engine.shared_queue().wait_for_turn():
            return token_alternatives(engine, query, best)

    return queued_engine.session_cached("_odds", (engine.full_digest, engine.dtype, query, best.smiles), look)
