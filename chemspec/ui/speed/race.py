"""The replay of a race: recorded runs as lanes that fill with tokens, played in the browser without the server."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from chemspec.settings import DecodeSettings
from chemspec.ui.common.web_files import web_file
from chemspec.ui.speed import timing

CAPTION = (
    "These are recorded runs, made one after the other on the server, never together, and replayed side by side: "
    "of each setting the run with the median time."
)
_replay = st.components.v2.component(
    "chemspec_race", html='<div class="race"></div>', css=web_file("race.css"), js=web_file("race.js")
)


PASSES = (
    "These are recorded runs, made one after the other on the server, which was busy: they are replayed pass by pass, "
    "every pass as long as another. A pass that checks drafts is a little dearer than one of a single token."
)


def replay(settings: Sequence[DecodeSettings], rounds: timing.Rounds, *, number: str, clock: bool = True) -> None:
    """Show lanes to play, pause and scrub; starts by itself unless the visitor asked for less motion.

    Args:
        settings: one a lane.
        rounds: of each its results.
        number: tells this race from the one before, whose replay must not go on.
        clock: by the clock; otherwise pass by pass, where times cannot be believed.
    """
    lanes = timing.lanes(settings, rounds, clock=clock)
    caption = CAPTION if clock else PASSES
    _replay(data={"id": number, "lanes": lanes, "caption": caption, "clock": clock}, key="speed_replay")
