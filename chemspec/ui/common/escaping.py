"""Escape untrusted text for Streamlit's Markdown and for spreadsheets."""

from __future__ import annotations

import re

# A full stop between digits means nothing in Markdown; one after a number at the beginning makes it a list.
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-!|$~:&=^\"']|(?<![0-9])\.|\.(?![0-9]))")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_HEADING = re.compile(r"^ {0,3}(#{1,6})(?=[ \t])", flags=re.MULTILINE)


def plain_text(text: str) -> str:
    """Return text as one line in which all Markdown is escaped."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def without_images(text: str, *, under: int = 0) -> str:
    """Return Markdown with images turned into links, so that no browser fetches them."""
    text = re.sub(r"!+(?=\[)", "", text)
    return _HEADING.sub(lambda match: "#" * min(6, len(match[1]) + under), text)


def escape_formula(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula.

    A formula begins with = + - @ (or their wide forms), maybe after blanks; such a cell gets a leading ', which
    spreadsheets do not show. Numbers stay as they are, and so does every SMILES that can be read: none begins with
    these signs.
    """
    start = text.lstrip()[:1]
    suspicious = start in tuple("=+-@＝＋－＠|%") or text[:1] in tuple("\t\r\n")
    return "'" + text if suspicious and start and not _NUMBER.fullmatch(text.strip()) else text
