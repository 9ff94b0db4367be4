"""The line of the page Speed on the questions of today that were decoded again without drafts."""

from __future__ import annotations

import streamlit as st

from chemspec.ui.common import queued_engine


def show_shadow_line() -> None:
    """Show the counts of the shadow measurement, if there is one."""
    worker = queued_engine.shadow_worker()
    if worker is None:
        return
    counts = worker.shadow.counts
    st.caption(
        f"{counts.sentence[0].upper()}{counts.sentence[1:]}.",
        help="Of every visitor's questions a fraction is decoded again without drafts while the app is idle. Times "
        "are those of questions that were decoded alone.",
    )
    if counts.differ:
        st.warning(
            f"Different answers are stored in {worker.shadow.differences.name} in the home folder of the server; "
            "`chemspec verify` decodes them again."
        )
