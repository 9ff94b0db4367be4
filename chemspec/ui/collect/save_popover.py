"""The button that saves an answer to a collection."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from chemspec.ui.collect import owner
from chemspec.ui.collect.store import LONGEST, STATUSES, SavedAnswer, StoreError
from chemspec.ui.common import escaping

NAME = "collect_name"  # in the session: the name used last


def show_save_popover(answer: SavedAnswer, *, key: str) -> None:
    """Draw the button, with collection, status and note."""
    menu = st.popover("Save", on_change="rerun", key=key, type="tertiary")
    if not menu.open:
        return
    with menu:
        name = st.text_input(
            "Collection", st.session_state.get(NAME, "My answers"), max_chars=LONGEST["question"], key=f"{key}_name"
        )
        status = st.selectbox("Status", STATUSES, key=f"{key}_status")
        note = st.text_area("Note", max_chars=LONGEST["note"], key=f"{key}_note", height=80)
        if st.button("Save to the collection", type="primary", key=f"{key}_go"):
            st.session_state[NAME] = name
            try:
                owner.visitor_store().keep(replace(answer, question=name.strip(), note=note, status=status))
            except StoreError as error:
                st.error(f"Could not save: {escaping.plain_text(str(error))}", icon=None)
            else:
                st.success("Saved to Collections.")
