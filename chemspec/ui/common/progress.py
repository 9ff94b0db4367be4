"""A prediction under way: a line that tells how far it is, and a button to stop it."""

from __future__ import annotations

import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine

_KEY = "predict_stopped"


def answer(model: Engine, query: str, settings: DecodeSettings) -> DecodeResult | None:
    """The answer, or None if the visitor stopped it. What takes less than a moment shows no progress at all."""
    stopped = st.session_state.get(_KEY)
    if stopped == (model.digest, query, settings):
        st.info("Stopped. Ask again to start anew.")
        return None
    place = st.empty()
    lines: list[object] = []

    def report(line: str) -> None:
        if not lines:
            with place.container(horizontal=True, vertical_alignment="center"):
                lines.append(st.empty())
                st.button("Stop", key="predict_stop", on_click=_stop, args=(model.digest, query, settings))
        lines[0].caption(line)  # type: ignore[attr-defined]

    result = queued_engine.answer(model, query, settings, report=report)
    place.empty()
    return result


def _stop(digest: str, query: str, settings: DecodeSettings) -> None:
    st.session_state[_KEY] = (digest, query, settings)
