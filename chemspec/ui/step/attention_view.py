"""Where the last decoder layer looks in the query while it writes the answer: a picture below the player."""

import streamlit as st

from chemspec.depict.attention import describe_attention, draw_attention
from chemspec.depict.canvas import to_svg
from chemspec.depict.molecules import svg_data_uri
from chemspec.engine.engine import Engine
from chemspec.engine.inspection import AttentionMap
from chemspec.types import DecodeResult
from chemspec.ui.common import escaping, queued_engine, scheme, theme

LEGEND = (
    "A row for each token of the best answer, a column for each token that the encoder reads: the darker, the more "
    "weight the last layer's attention gives it when that token is predicted (mean over its heads). Diagonals are what "
    "drafts copied from the query get right."
)


def show_attention(engine: Engine, query: str, result: DecodeResult) -> None:
    """Offer the picture of the best answer, and draw it if it is wanted; nothing for a truncated answer."""
    best = result.hypotheses[0]
    if best.ended != "eos" or not st.toggle("Where the model looks in the query", key="step_attention"):
        return

    def look() -> AttentionMap:
        with queued_engine.shared_queue().wait_for_turn():
            return engine.attention(query, best.smiles)

    try:
        attention = queued_engine.session_cached("_attention", (engine.full_digest, query, best.smiles), look, most=10)
    except ValueError as error:
        st.caption(escaping.plain_text(f"There is no such picture: {error}."))
        return
    shown = attention.query_tokens, attention.answer_tokens, attention.weights
    svg = to_svg(draw_attention(*shown, dark=theme.is_dark()))
    alt = f"For each token of the answer the token of the query with most weight: {describe_attention(*shown)}"
    st.html(escaping.tag("div", scheme.picture_html(svg_data_uri(svg), alt), style="overflow-x:auto"))
    st.caption(LEGEND)
