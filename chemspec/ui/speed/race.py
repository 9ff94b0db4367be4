"""The replay of a race: recorded runs as lanes that fill with tokens, played in the browser without the server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from chemspec.settings import DecodeSettings
from chemspec.ui.speed import timing

CAPTION = (
    "These are recorded runs, made one after the other on the server, never together, and replayed side by side: "
    "of each setting the run with the median time."
)
HERE = Path(__file__)

_replay = st.components.v2.component(
    "chemspec_race",
    html='<div class="race"></div>',
    css=HERE.with_suffix(".css").read_text(encoding="utf-8"),
    js=HERE.with_suffix(".js").read_text(encoding="utf-8"),
)


def replay(settings: Sequence[DecodeSettings], rounds: timing.Rounds, *, number: str) -> None:
    """Show lanes to play, pause and scrub; starts by itself unless the visitor asked for less motion.

    Args:
        settings: one a lane.
        rounds: of each its results.
        number: tells this race from the one before, whose replay must not go on.
    """
    lanes = timing.lanes(settings, rounds)
    _replay(data={"id": number, "lanes": lanes, "caption": CAPTION}, key="speed_replay")
