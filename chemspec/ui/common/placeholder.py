"""A container that is emptied at once when its content belongs to another query.

Streamlit replaces a page piece by piece and removes what is left over only when the script ends; until then, answers to
the last question would stand below those to the new one.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import streamlit as st


def fresh_container(shows: Hashable, *, key: str) -> Any:
    """Return a container for content that belongs to `shows`; content of another value is removed."""
    state = st.session_state
    last, turn = state.get(key, (None, 0))
    if last != shows:
        turn = 1 - turn
        state[key] = (shows, turn)
    # Two places in turns: an empty one and a container in the same place would be sent as one.
    slots = (st.empty(), st.empty())
    return slots[turn].container()
