"""A running prediction, with a progress line and a button that stops it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine

_KEY = "predict_stopped"


def predict_with_progress(
    model: Engine,
    query: str,
    settings: DecodeSettings,
    *,
    first: DecodeSettings | None = None,
    preview: Callable[[DecodeResult], None] = lambda _: None,
) -> tuple[DecodeResult, DecodeResult | None] | None:
    """Predict, with progress and a stop button for queries that take longer than a moment.

    Args:
        model: that answers.
        query: a SMILES.
        settings: of the search.
        first: a quicker search, made before.
        preview: draws what that one found, while the search goes on.

    Returns:
        the answer and that of the quicker search, if there was one; None if the visitor stopped it.
    """
    stopped = st.session_state.get(_KEY)
    if stopped == (model.digest, query, settings):
        st.info("Stopped. Submit the query again to restart.")
        return None
    placeholder = st.empty()
    lines: list[Any] = []

    def report(line: str) -> None:
        if not lines:
            with placeholder.container():
                with st.container(horizontal=True, vertical_alignment="center"):
                    lines.append(st.empty())
                    st.button(
                        "Stop", key="predict_stop", on_click=_stop_prediction, args=(model.digest, query, settings)
                    )
                lines.append(st.container())
        if quick and len(lines) == 2:
            with lines.pop():
                preview(quick)
        lines[0].caption(line)

    quick = None
    if first is not None:
        quick = queued_engine.cached_prediction(model, query, first, report=report)
    result = (
        quick if quick and first == settings else queued_engine.cached_prediction(model, query, settings, report=report)
    )
    placeholder.empty()
    return result, quick


def _stop_prediction(digest: str, query: str, settings: DecodeSettings) -> None:
    st.session_state[_KEY] = (digest, query, settings)
