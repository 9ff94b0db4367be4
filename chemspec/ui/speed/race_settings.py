"""Widgets that choose the decode settings of a race against standard decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.replay import timing
from chemspec.settings import DecodeSettings

MAX_ANSWERS = 50  # of a timed search: as many as the page Predict searches
DECODER_HELP = (
    "Greedy writes the best token at every step. Beam search keeps the n best texts. Both are exact: drafts never "
    "change the answer. SBS (Andronov et al. 2024) is relaxed: its drafts can change the answers."
)
_KEY = "speed_lane1"  # in the session: the settings of the lane with drafts


def choose_lanes(offered: Sequence[str]) -> tuple[DecodeSettings, DecodeSettings]:
    """Draw the widgets of a race; return its lanes: standard decoding, and the same search with a chosen drafter."""
    state = st.session_state
    line = st.empty()
    keep: Any = {"persist_state": "session"}
    with st.expander("Settings"):  # a label that changed would close it
        parts = st.columns([1.3, 0.8, 1.3, 1, 1], vertical_alignment="bottom")
        decoder = parts[0].selectbox(
            "Decoder",
            comparable_decoders(),
            format_func=lambda name: DECODERS[name].label,
            help=DECODER_HELP,
            key=f"{_KEY}_decoder",
            **keep,
        )
        state.setdefault(f"{_KEY}_n", 5)
        greedy = decoder == "greedy"
        n = parts[1].number_input("Answers", 1, MAX_ANSWERS, key=f"{_KEY}_n", disabled=greedy, **keep)
        if state.get(f"{_KEY}_drafter") not in offered:
            state[f"{_KEY}_drafter"] = "auto"  # nothing was chosen yet, or for another model
        drafter = parts[2].selectbox(
            "Drafter",
            [name for name in offered if name != "none"],
            format_func=lambda name: DRAFTERS[name].title,
            help="Drafting method. The page How it works compares them.",
            key=f"{_KEY}_drafter",
            **keep,
        )
        about = "Maximum, in tokens; 0 leaves it to the drafter."
        length = parts[3].number_input("Draft length", 0, 100, key=f"{_KEY}_length", help=about, **keep)
        about = "Maximum number of drafts in a pass; 0 leaves it to the drafter."
        count = parts[4].number_input("Drafts", 0, 100, key=f"{_KEY}_count", help=about, **keep)
    if drafter == "auto" and DECODERS[decoder].default_drafter != "auto":
        length = count = 0  # sizes have no effect there
    drafted = DecodeSettings(
        decoder=decoder,
        n=1 if greedy else int(n),
        drafter=drafter,
        drafting="fixed" if length or count else "planned",  # chosen sizes are used as they are
        draft_length=int(length),
        draft_count=int(count),
    )
    lanes = (timing.standard_of(drafted), drafted)
    line.markdown("**" + "** against **".join(map(timing.setting_name, lanes)) + "**")
    return lanes


def race_against_standard(settings: DecodeSettings) -> None:
    """Race these settings against standard decoding as soon as the page Speed opens."""
    decoder = settings.decoder if settings.decoder in comparable_decoders() else "greedy"
    drafter = "auto" if settings.drafter == "none" else settings.drafter
    lane = {"decoder": decoder, "n": min(settings.n, MAX_ANSWERS), "drafter": drafter, "length": 0, "count": 0}
    st.session_state.update({f"{_KEY}_{field}": value for field, value in lane.items()}, speed_race_start_go=True)


def comparable_decoders() -> list[str]:
    """Return the decoders whose answers depend on nothing but the query, greedy first: others cannot be compared."""
    specs = sorted(DECODERS.values(), key=lambda spec: spec.name != "greedy")
    return [spec.name for spec in specs if not spec.random]
