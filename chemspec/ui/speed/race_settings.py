"""Widgets that choose how a query is answered: one row a lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings
from chemspec.ui.speed import timing

MOST = 4
MOST_ANSWERS = 10  # of a timed search: wider ones take seconds a run, during which nobody else gets an answer
START = ("none", "auto", "copy", "windows")  # the drafter of a lane when it is added
SIZE = "0 leaves it to the drafter."
DECODER_HELP = (
    "Greedy writes the best token at every step. Beam search keeps the n best texts. Both are exact: drafts never "
    "change the "
    "answer. SBS (Andronov et al. 2024) is relaxed: its drafts can change the answers."
)
DRAFTER_HELP = (
    "Who guesses ahead. copy: the query's text after the best match. windows and smart: pieces of the query. "
    "mixed: copies and learned phrases in one tree. auto: as much of that as pays on this machine. "
    "ar, hierarchy, spec_drafter, blockwise, medusa: networks trained for this model; the page Learn compares them. "
    "none: the standard way, one token a pass."
)


def choose(offered: Sequence[str]) -> tuple[DecodeSettings, ...]:
    """Draw the widgets of a race and return its two to four lanes, with the drafters that are `offered`."""
    numbers: list[int] = st.session_state.setdefault("speed_lanes", [0, 1])
    line = st.empty()
    with st.expander("Change the lanes"):  # a label that changed would close it
        chosen = tuple(
            _lane(number, place, offered, removable=len(numbers) > 2) for place, number in enumerate(numbers, 1)
        )
        if len(numbers) < MOST:
            st.button("Add a lane", key="speed_add", on_click=_add)
    line.markdown("**" + "** against **".join(map(timing.name, chosen)) + "**")
    return chosen


def decoders(*, exact: bool = False) -> list[str]:
    """Return the decoders whose answers depend on nothing but the query, greedy first: others cannot be compared."""
    specs = sorted(DECODERS.values(), key=lambda spec: spec.name != "greedy")
    return [spec.name for spec in specs if not spec.random and (spec.guarantee == "exact" or not exact)]


def _made(decoder: str, n: int, drafter: str, length: int, count: int) -> DecodeSettings:
    """Settings of which nothing stands that has no effect, so that equal ways are equal values."""
    if drafter == "none" or (drafter == "auto" and DECODERS[decoder].default_drafter != "auto"):
        length = count = 0
    return DecodeSettings(
        decoder=decoder, n=1 if decoder == "greedy" else n, drafter=drafter, draft_length=length, draft_count=count
    )


def _lane(number: int, place: int, offered: Sequence[str], *, removable: bool) -> DecodeSettings:
    """Draw one row of widgets and return its settings."""
    if st.session_state.get(_key(number, "drafter"), "none") not in offered:
        st.session_state[_key(number, "drafter")] = "auto"  # chosen for another model
    parts = st.columns([1.3, 0.8, 1.3, 1, 1, 0.9], vertical_alignment="bottom")
    decoder = parts[0].selectbox(
        f"Lane {place}: decoder",
        decoders(),
        format_func=lambda name: DECODERS[name].label,
        help=DECODER_HELP,
        **_kept(number, "decoder"),
    )
    n = parts[1].number_input(
        "Answers", 1, MOST_ANSWERS, disabled=decoder == "greedy", help="The width of the beam.", **_kept(number, "n", 5)
    )
    drafter = parts[2].selectbox(
        "Drafter",
        [name for name in DRAFTERS if name in offered],
        format_func=lambda name: DRAFTERS[name].title,
        help=DRAFTER_HELP,
        **_kept(number, "drafter", START[number % len(START)]),
    )
    idle = drafter == "none"
    length = parts[3].number_input(
        "Draft length", 0, 100, disabled=idle, help=f"Most tokens of a draft. {SIZE}", **_kept(number, "length", 0)
    )
    count = parts[4].number_input(
        "Drafts", 0, 100, disabled=idle, help=f"Most drafts of a pass. {SIZE}", **_kept(number, "count", 0)
    )
    if removable:
        parts[5].button(
            "Remove", key=_key(number, "remove"), on_click=_remove, args=(number,), help=f"Remove lane {place}"
        )
    return _made(decoder, int(n), drafter, int(length), int(count))


def _kept(number: int, what: str, default: Any = None) -> dict[str, Any]:
    """Options of a widget that keeps its value while other parts of the app are open."""
    key = _key(number, what)
    if default is not None:
        st.session_state.setdefault(key, default)
    return {"key": key, "persist_state": "session"}


def _key(number: int, what: str) -> str:
    return f"speed_lane{number}_{what}"


def _add() -> None:
    numbers = st.session_state.speed_lanes
    free = next(number for number in range(MOST) if number not in numbers)
    st.session_state.speed_lanes = [*numbers, free]


def _remove(number: int) -> None:
    numbers = st.session_state.speed_lanes
    st.session_state.speed_lanes = [item for item in numbers if item != number]


def drafted(key: str, drafters: tuple[str, ...]) -> DecodeSettings:
    """Draw one decoder and one drafter and return their settings, for what is compared with the standard way."""
    parts = st.columns([1.4, 0.8, 1.2], vertical_alignment="bottom")
    decoder = parts[0].selectbox(
        "Decoder",
        decoders(exact=True),
        format_func=lambda name: DECODERS[name].label,
        key=f"{key}_decoder",
        persist_state="session",
    )
    n = parts[1].number_input(
        "Answers", 1, 10, 5, disabled=decoder == "greedy", key=f"{key}_n", persist_state="session"
    )
    if st.session_state.get(f"{key}_drafter", drafters[0]) not in drafters:
        st.session_state[f"{key}_drafter"] = drafters[0]
    drafter = parts[2].selectbox("Drafter", drafters, help=DRAFTER_HELP, key=f"{key}_drafter", persist_state="session")
    return _made(decoder, int(n), drafter, 0, 0)
