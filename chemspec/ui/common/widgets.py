"""Widgets shared by the pages."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

import streamlit as st

T = TypeVar("T")


def segmented_choice(label: str, options: Iterable[T], *, key: str, hidden: bool = False, **more: Any) -> T:
    """Draw a segmented control that always has a value, at first that of its first option."""
    offered = list(options)
    if key not in st.session_state:
        more.setdefault("default", offered[0])
    visibility = "collapsed" if hidden else "visible"
    draw: Any = st.segmented_control  # its overloads do not accept options passed on
    chosen: T | None = draw(label, offered, key=key, required=True, label_visibility=visibility, **more)
    # Where the browser went back to a page, Streamlit may still hold None.
    return more.get("default", offered[0]) if chosen is None else chosen


def offered_choice(label: str, labels: Mapping[str, str], *, key: str, **more: Any) -> str:
    """Draw a menu of labels by name, at first the first one."""
    if st.session_state.get(key) not in (None, *labels):
        del st.session_state[key]  # chosen for another model or search, not offered here
    choose: Any = st.selectbox
    return str(choose(label, [*labels], format_func=labels.__getitem__, key=key, persist_state="session", **more))


def fresh_container(shows: Hashable, *, key: str) -> Any:
    """Return a container for content that belongs to `shows`; content of another value is removed at once.

    Streamlit replaces a page piece by piece and removes what is left over only when the script ends; until then,
    answers to the last question would stand below those to the new one.
    """
    state = st.session_state
    last, turn = state.get(key, (None, 0))
    if last != shows:
        turn = 1 - turn
        state[key] = (shows, turn)
    # Two places in turns: an empty one and a container in the same place would be sent as one.
    slots = (st.empty(), st.empty())
    return slots[turn].container()
