"""The identity of visitors, so that one visitor with many tabs counts once in the queue."""

from __future__ import annotations

import hashlib

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

COOKIE = "_streamlit_xsrf"  # which Streamlit gives every browser


def visitor_id() -> str | None:
    """Return a pseudonymous id of this visitor; None where there is none.

    A visitor who has logged in is known by that, others by their browser. An address would not do: behind a proxy all
    have the same.
    """
    context = get_script_run_ctx()
    if context is None:
        return None
    user = str(st.user.get("sub") or st.user.get("email") or "")
    cookie = "" if user else st.context.cookies.get(COOKIE, "")
    return hashlib.sha256((user or cookie or context.session_id).encode()).hexdigest()[:16]
