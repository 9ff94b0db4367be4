"""The toggle that colours atoms by origin, and the colours of the query's drawing."""

from __future__ import annotations

import streamlit as st

from chemspec.ui.common import draw

LABEL = "Where it came from"
_CHIP, _QUERY = "predict_origins", "predict_origins_query"  # in the session


def show_colour_toggle() -> None:
    """Draw the button that turns the colours on and off."""
    st.pills(
        "Colours of atoms",
        [LABEL],
        selection_mode="multi",
        key=_CHIP,
        label_visibility="collapsed",
        width="content",
        persist_state="session",
    )


def colours_enabled() -> bool:
    """Return whether the visitor turned them on."""
    return bool(st.session_state.get(_CHIP))


def store_query_colours(smiles: str, colours: draw.Colouring | None, rank: int) -> bool:
    """Store the colours of a query; return whether its drawing has to be drawn again."""
    now = (smiles, colours, rank)
    before, st.session_state[_QUERY] = st.session_state.get(_QUERY), now
    return colours_enabled() and before != now


def stored_query_colours(smiles: str) -> tuple[draw.Colouring, str] | None:
    """Return the colours for the drawing of a query and a line below it; None where they are not to be shown."""
    stored, colours, rank = st.session_state.get(_QUERY, ("", None, 0))
    if stored != smiles or colours is None or not colours_enabled():
        return None
    return colours, f"Coloured: the pieces that answer {rank} copied; the number is the pass."
