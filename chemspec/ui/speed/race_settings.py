"""Widgets that choose the decode settings of a race: one row a lane."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings
from chemspec.ui.speed import timing

MAX_LANES = 4
MOST_ANSWERS = 50  # of a timed search: as many as the page Predict searches
DEFAULT_DRAFTERS = ("none", "auto", "copy", "windows")  # the drafter of a lane when it is added
DECODER_HELP = (
    "Greedy writes the best token at every step. Beam search keeps the n best texts. Both are exact: drafts never "
    "change the answer. SBS (Andronov et al. 2024) is relaxed: its drafts can change the answers."
)
DRAFTER_HELP = "Drafting method. The page How it works compares them; none is standard decoding, one token a pass."


def choose_lanes(offered: Sequence[str]) -> tuple[DecodeSettings, ...]:
    """Draw the widgets of a race and return its two to four lanes, with the drafters that are `offered`."""
    numbers: list[int] = st.session_state.setdefault("speed_lanes", [0, 1])
    line = st.empty()
    with st.expander("Change the lanes"):  # a label that changed would close it
        chosen = tuple(
            _lane_form(number, place, offered, removable=len(numbers) > 2) for place, number in enumerate(numbers, 1)
        )
        if len(numbers) < MAX_LANES:
            st.button("Add a lane", key="speed_add", on_click=_add_lane)
    line.markdown("**" + "** against **".join(map(timing.setting_name, chosen)) + "**")
    return chosen


def race_against_standard(settings: DecodeSettings) -> None:
    """Race these settings against standard decoding as soon as the page Speed opens."""
    decoder = settings.decoder if settings.decoder in comparable_decoders() else "greedy"
    drafter = "auto" if settings.drafter == "none" else settings.drafter
    for number, name in enumerate(("none", drafter)):
        lane = {"decoder": decoder, "n": min(settings.n, MOST_ANSWERS), "drafter": name, "length": 0, "count": 0}
        st.session_state.update({f"speed_lane{number}_{field}": value for field, value in lane.items()})
    st.session_state.update(speed_lanes=[0, 1], speed_race_start_go=True)


def comparable_decoders() -> list[str]:
    """Return the decoders whose answers depend on nothing but the query, greedy first: others cannot be compared."""
    specs = sorted(DECODERS.values(), key=lambda spec: spec.name != "greedy")
    return [spec.name for spec in specs if not spec.random]


def _lane_settings(decoder: str, n: int, drafter: str, length: int = 0, count: int = 0) -> DecodeSettings:
    """Return settings without values that have no effect, so that equal searches compare equal."""
    if drafter == "none" or (drafter == "auto" and DECODERS[decoder].default_drafter != "auto"):
        length = count = 0
    return DecodeSettings(
        decoder=decoder,
        n=1 if decoder == "greedy" else n,
        drafter=drafter,
        drafting="fixed" if length or count else "planned",  # sizes are asked for to see such drafts
        draft_length=length,
        draft_count=count,
    )


def _lane_form(number: int, position: int, offered: Sequence[str], *, removable: bool) -> DecodeSettings:
    """Draw one row of widgets and return its settings."""
    key = f"speed_lane{number}"
    st.session_state.setdefault(f"{key}_drafter", DEFAULT_DRAFTERS[number % len(DEFAULT_DRAFTERS)])
    parts = st.columns([1.3, 0.8, 1.3, 1, 1, 0.9], vertical_alignment="bottom")
    with parts[0]:
        decoder = _choose_decoder(f"Lane {position}: decoder", comparable_decoders(), key)
    with parts[1]:
        n = _choose_width(decoder, key)
    with parts[2]:
        drafter = _choose_drafter(offered, key)
    with parts[3]:
        length = _choose_size("Draft length", "tokens of a draft", drafter, f"{key}_length")
    with parts[4]:
        count = _choose_size("Drafts", "drafts of a pass", drafter, f"{key}_count")
    if removable:
        about = f"Remove lane {position}"
        parts[5].button("Remove", key=f"{key}_remove", on_click=_remove_lane, args=(number,), help=about)
    return _lane_settings(decoder, n, drafter, length, count)


def _choose_decoder(label: str, names: list[str], key: str) -> str:
    return st.selectbox(
        label,
        names,
        format_func=lambda name: DECODERS[name].label,
        help=DECODER_HELP,
        key=f"{key}_decoder",
        persist_state="session",
    )


def _choose_width(decoder: str, key: str) -> int:
    key, idle = f"{key}_n", decoder == "greedy"
    st.session_state.setdefault(key, 5)
    return int(st.number_input("Answers", 1, MOST_ANSWERS, key=key, disabled=idle, persist_state="session"))


def _choose_drafter(offered: Sequence[str], key: str) -> str:
    key = f"{key}_drafter"
    if st.session_state.get(key) not in offered:
        st.session_state[key] = "auto"  # nothing was chosen yet, or for another model
    return st.selectbox(
        "Drafter",
        offered,
        format_func=lambda name: DRAFTERS[name].title,
        help=DRAFTER_HELP,
        key=key,
        persist_state="session",
    )


def _choose_size(label: str, what: str, drafter: str, key: str) -> int:
    about, idle = f"Most {what}. 0 leaves it to the drafter.", drafter == "none"
    return int(st.number_input(label, 0, 100, key=key, disabled=idle, help=about, persist_state="session"))


def _add_lane() -> None:
    numbers = st.session_state.speed_lanes
    free = next(number for number in range(MAX_LANES) if number not in numbers)
    st.session_state.speed_lanes = [*numbers, free]


def _remove_lane(number: int) -> None:
    st.session_state.speed_lanes = [lane for lane in st.session_state.speed_lanes if lane != number]
