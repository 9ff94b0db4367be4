"""Escape untrusted text for Streamlit's Markdown and for spreadsheets, and tables to download."""

import re
from collections.abc import Iterable, Mapping, Sequence

from chemspec.io import spreadsheets
from chemspec.io.writers import csv_row, single_line

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


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; a title that ends with ":" aligns its column to the right."""
    lines = [[title.rstrip(":") for title in head], ["--:" if title.endswith(":") else "---" for title in head], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escape_formula(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula: with a leading ', which is not shown.

    A formula begins with = + - @ (or their wide forms), maybe after blanks. Numbers stay as they are, and so does every
    SMILES that can be read: none begins with these signs.
    """
    start = text.lstrip()[:1]
    suspicious = start in tuple("=+-@＝＋－＠|%") or text[:1] in tuple("\t\r\n")
    return "'" + text if suspicious and start and not _NUMBER.fullmatch(text.strip()) else text


def rows_to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows of the same keys as a table; no cell is taken for a formula or has line breaks."""
    cells = ([escape_formula(single_line(str(value))) for value in row.values()] for row in rows)
    return "".join(map(csv_row, (rows[0] if rows else (), *cells)))


def rows_to_xlsx(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Return the same as a workbook, in which numbers are numbers."""
    number = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
    cells = (
        [float(cell) if isinstance(cell, str) and number.fullmatch(cell) else cell for cell in row.values()]
        for row in rows
    )
    return spreadsheets.write_workbook([*rows[0]] if rows else [], cells)
