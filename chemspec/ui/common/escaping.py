"""Escape untrusted text for Streamlit's Markdown."""

import re
from collections.abc import Iterable, Sequence

# A full stop between digits means nothing in Markdown; one after a number at the beginning makes it a list.
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-!|$~:&=^\"']|(?<![0-9])\.|\.(?![0-9]))")
_HEADING = re.compile(r"^ {0,3}(#{1,6})(?=[ \t])", flags=re.MULTILINE)


def plain_text(text: str) -> str:
    """Return text as one line in which all Markdown is escaped."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def without_images(text: str, *, under: int = 0) -> str:
    """Return Markdown with images turned into links, so that no browser fetches them."""
    text = re.sub(r"!+(?=\[)", "", text)
    return _HEADING.sub(lambda match: "#" * min(6, len(match[1]) + under), text)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; a title that ends with ":" aligns its column to the right."""
    lines = [[title.rstrip(":") for title in head], ["--:" if title.endswith(":") else "---" for title in head], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
