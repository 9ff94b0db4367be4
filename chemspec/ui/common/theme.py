"""Whether a page is dark, and the colours of spans; `theme.css` has the styles."""

import streamlit as st

from chemspec.depict.colors import SPANS

__all__ = ["SPANS", "is_dark"]


def is_dark() -> bool:
    """Return whether the visitor's page is dark."""
    return st.context.theme.type == "dark"
