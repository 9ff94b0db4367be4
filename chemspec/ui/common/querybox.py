"""The box a query is typed or pasted into: tells of pauses in typing and of Enter, and marks the characters at fault.

Streamlit's own text boxes drop the line ends of a pasted molfile and cannot tell "typed so far" from "asked".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import streamlit as st

from chemspec.ui.common.web_files import web_file

MOST_CHARS = 100_000  # of a paste; the longest files that read_any takes are shorter


@dataclass(frozen=True)
class Shown:
    """Text of the box and around it.

    Attributes:
        revision: goes up when the program, not the visitor, changes the text; only then the box takes it over.
        span: characters [start, end) of `text` to mark.
    """

    label: str
    placeholder: str
    text: str
    revision: int
    span: tuple[int, int] | None = None


def querybox(
    shown: Shown,
    *,
    key: str,
    typed: Callable[[str], None],
    asked: Callable[[str], None],
    moved: Callable[[], None] = lambda: None,
) -> None:
    """Put the box on the page.

    Args:
        shown: the text and what is written around it.
        key: of the widget.
        typed: gets the text after a pause in typing.
        asked: gets the text when Enter is pressed.
        moved: called when the visitor has gone back or forward. The query parameters alone do not tell: a click may be
            on its way with the old ones while the script sets new ones.
    """

    def value(name: str) -> str:
        text = (st.session_state.get(key) or {}).get(name) or ""
        return str(text)[:MOST_CHARS]

    _component()(
        key=key,
        data=asdict(shown) | {"longest": MOST_CHARS},
        on_text_change=lambda: typed(value("text")),
        on_ask_change=lambda: asked(value("ask")),
        on_moved_change=moved,
    )


@st.cache_resource(show_spinner=False)
def _component():  # type: ignore[no-untyped-def]
    """Return the component, registered once a server."""
    html, css, js = (web_file(__file__, kind) for kind in ("html", "css", "js"))
    return st.components.v2.component("chemspec_querybox", html=html, css=css, js=js)
