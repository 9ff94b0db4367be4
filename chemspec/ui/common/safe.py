"""Text that somebody else wrote, made fit for Streamlit's Markdown: nothing in it is fetched or formatted."""

from __future__ import annotations

import re

_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|$~:&=^\"'])")
_HEADING = re.compile(r"^ {0,3}(#{1,6})(?=[ \t])", flags=re.MULTILINE)


def plain(text: str) -> str:
    """Return a line shown as it is: no Markdown, no icons, no formulas, no line breaks."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def markdown(text: str, *, under: int = 0) -> str:
    """Return Markdown without images, which a browser would fetch from wherever they lie; they become plain links.

    Args:
        text: the Markdown.
        under: headings go down by so many levels, to stand below the page's own.
    """
    text = re.sub(r"!+(?=\[)", "", text)
    return _HEADING.sub(lambda match: "#" * min(6, len(match[1]) + under), text)
