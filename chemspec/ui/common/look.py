"""Colours and styles, in one place. Nothing is told apart by colour alone."""

from __future__ import annotations

import streamlit as st

# Okabe and Ito's colours, which most people with a colour-vision deficiency can tell apart; for light and dark grounds
# alike. Spans of the query take them in turn.
SPANS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A900", "#8C6BB1")
ACCENT = "#0f766e"

CSS = """
.block-container {padding-top: 3.6rem; padding-bottom: 3rem; max-width: 1180px}
.stMain h1 {font-size: 2.1rem}
.cs-svg img {max-width: 100%; height: auto; display: block; margin: 0 auto}
.cs-mono {font-family: var(--st-code-font, ui-monospace, monospace)}
@media (max-width: 640px) {.block-container {padding-left: .8rem; padding-right: .8rem}}
@media (prefers-reduced-motion: reduce) {* {animation: none !important; transition: none !important}}
"""
# White letters, which Streamlit takes, are hard to read on the light primary colour of the dark theme.
DARK = """
[data-testid=stBaseButton-primary], [data-testid=stBaseButton-primary] * {color: #06201c}
"""


def dark() -> bool:
    """Whether the visitor's page is dark."""
    return st.context.theme.type == "dark"


def span_color(number: int) -> str:
    """The colour of the number-th span."""
    return SPANS[number % len(SPANS)]
