"""The replay of a race: recorded runs as lanes that fill with tokens, played in the browser without the server."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from chemspec.replay import timing
from chemspec.settings import DecodeSettings
from chemspec.ui.common.web_files import web_file

CAPTION = (
    "These are recorded runs, made one after the other on the server, never together, and replayed side by side: "
    "of each setting the run with the median time."
)
BUSY_CAPTION = (
    "These are recorded runs, made one after the other on the server, which was busy: they are replayed pass by pass, "
    "every pass as long as another. A pass that checks drafts costs a little more than one of a single token."
)
_replay = st.components.v2.component(
    "chemspec_race", html='<div class="race"></div>', css=web_file("race.css"), js=web_file("race.js")
)


def show_replay(settings: Sequence[DecodeSettings], rounds: timing.Rounds, *, race_id: str, clock: bool = True) -> None:
    """Show lanes to play, pause and scrub; starts by itself unless the visitor asked for less motion.

    Args:
        settings: one a lane.
        rounds: of each its results.
        race_id: changes with the race, so that the replay of the one before stops.
        clock: replay in measured time; otherwise every pass lasts one unit, for times of a busy machine.
    """
    lanes = timing.replay_lanes(settings, rounds, clock=clock)
    caption = CAPTION if clock else BUSY_CAPTION
    _replay(data={"id": race_id, "lanes": lanes, "caption": caption, "clock": clock}, key="speed_replay")
