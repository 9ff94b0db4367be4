"""An optional login before every page, by Streamlit's OpenID Connect, and the identity of visitors.

CHEMSPEC_LOGIN=1 closes the pages to everybody who has not logged in with the provider that `[auth]` in Streamlit's
secrets names; CHEMSPEC_LOGIN="@example.org, jane@example.com" opens them only to these addresses and domains, of which
the provider must say that it has verified them (`email_verified`). Some providers never say so: where another's
address cannot be claimed, CHEMSPEC_LOGIN_UNVERIFIED=1 takes addresses without it. Where the provider is not set up, the
pages stay closed.
"""

import hashlib
import os
from collections.abc import Mapping
from threading import Event
from typing import Any

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from chemspec.ui.common import escaping

OFF = ("", "0", "false", "no", "off")
ANYBODY = ("1", "true", "yes", "on")
_admitted: set[str] = set()  # sessions that have passed the gate
previews_offered = Event()  # set where the server has the route of previews


def require_login() -> None:
    """Draw a login for visitors who are not admitted, and end the script."""
    allowed = _allowed_visitors()
    if allowed in OFF:
        return
    user = dict(st.user)  # the identity provider's claims
    if not user.get("is_logged_in"):
        st.title("chemspec", anchor=False)
        if _has_provider():
            st.write("Log in to use this server.")
            st.button("Log in", type="primary", key="login", on_click=st.login)
        else:
            st.error("A login is required, but no provider is set up: the server's administrator must add `[auth]`.")
        st.stop()
    if allowed not in ANYBODY and not is_allowed(user, allowed):
        st.title("chemspec", anchor=False)
        name = escaping.plain_text(str(user.get("email") or "this account"))
        st.error(f"This server is not open to {name}.")
        st.button("Log out", key="logout", on_click=st.logout)
        st.stop()
    _admit_session()


def may_upload(session: str) -> bool:
    """Whether a session may upload files: it is logged in, or no login is required."""
    return _allowed_visitors() in OFF or session in _admitted


def is_visitor(session: str) -> bool:
    """Whether a session is one of a page that is open, and logged in where that is required."""
    return runtime.exists() and runtime.get_instance().is_active_session(session) and may_upload(session)


def session_id() -> str:
    """Return the id of this visitor's session; empty outside of a page."""
    context = get_script_run_ctx()
    return context.session_id if context else ""


def _admit_session() -> None:
    context = get_script_run_ctx()
    if context is not None and context.session_id not in _admitted and runtime.exists():
        active = runtime.get_instance().is_active_session
        _admitted.intersection_update([session for session in list(_admitted) if active(session)])
        _admitted.add(context.session_id)


def _allowed_visitors() -> str:
    return os.environ.get("CHEMSPEC_LOGIN", "").strip().lower()


def _has_provider() -> bool:
    try:
        return "auth" in st.secrets
    except FileNotFoundError:
        return False


def is_allowed(user: Mapping[str, Any], allowed: str) -> bool:
    """Whether a verified e-mail address, or its domain, is on the list of allowed ones."""
    email = str(user.get("email") or "").lower()
    verified = str(user.get("email_verified")).lower() == "true"  # some providers send it as a text
    trusted = os.environ.get("CHEMSPEC_LOGIN_UNVERIFIED", "").strip().lower() in ANYBODY
    if not email or not (verified or trusted):
        return False
    _, _, domain = email.rpartition("@")
    return any(entry in (email, f"@{domain}") for entry in (part.strip() for part in allowed.split(",")) if entry)


COOKIE = "_streamlit_xsrf"  # Streamlit gives it to every browser


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


def is_local_only() -> bool:
    """Return whether the app listens on this machine only."""
    return st.get_option("server.address") in ("127.0.0.1", "localhost", "::1")
