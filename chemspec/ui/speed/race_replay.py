"""The replay of a race: recorded runs as lanes that fill with tokens, played in the browser without the server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from chemspec.replay import picture, timing
from chemspec.replay.lanes import Lane
from chemspec.settings import DecodeSettings
from chemspec.ui.common import theme
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


def show_downloads(model: str, settings: Sequence[DecodeSettings], rounds: timing.Rounds, *, clock: bool) -> None:
    """Offer the replay as an animated picture, in the colours of the page."""
    runs = [(lane, timing.median_run(results)) for lane, results in zip(settings, rounds, strict=True) if results]

    def write(kind: str) -> bytes:
        lanes = [Lane.from_result(timing.setting_name(lane), result) for lane, result in runs]
        first = runs[0][1]
        same = all(timing.same_answers(first, result) for _, result in runs)
        drawn = picture.build_picture(
            lanes if clock else [lane.without_times() for lane in lanes],
            title=f"{model}: standard and speculative decoding",
            query=first.smiles,
            answer=first.hypotheses[0].canonical,
            conclusion="the same answer, token by token" if same else "the answers differ",
            dark=theme.is_dark(),
        )
        return picture.replay_bytes(drawn, kind)

    with st.popover("Save replay", type="tertiary"):
        for kind in ("svg", "webp", "gif"):
            st.download_button(
                kind.upper(), partial(write, kind), f"replay.{kind}", key=f"speed_replay_{kind}", on_click="ignore"
            )
        st.caption("An animated picture of ten seconds: SVG for web pages, WebP or GIF for slides.")
