"""Keep an answer: a button on its card."""

from __future__ import annotations

import streamlit as st

from chemspec.ui.collect import owner
from chemspec.ui.collect.store import LONGEST, STATUSES, Kept, StoreError
from chemspec.ui.common import safe

NAME = "collect_name"  # in the session: the name used last


def popover(one: Kept, *, key: str) -> None:
    """Draw the button with what one may write beside an answer."""
    place = st.popover("Keep", on_change="rerun", key=key, type="tertiary")
    if not place.open:
        return
    with place:
        name = st.text_input(
            "Collection", st.session_state.get(NAME, "My answers"), max_chars=LONGEST["question"], key=f"{key}_name"
        )
        status = st.selectbox("Status", STATUSES, key=f"{key}_status")
        note = st.text_area("Note", max_chars=LONGEST["note"], key=f"{key}_note", height=80)
        if st.button("Keep this answer", type="primary", key=f"{key}_go"):
            st.session_state[NAME] = name
            kept = Kept(name.strip(), one.task, one.model, one.query, one.answer, one.label, one.chance, note, status)
            try:
                owner.store().keep(kept)
            except StoreError as error:
                st.error(f"It is not kept: {safe.plain(str(error))}", icon=None)
            else:
                st.success("Kept; the page Collections has it.")
