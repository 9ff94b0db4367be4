"""Tables for people from rows of numbers: as Markdown for documents, or for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

# By heading a template such as "{median_ms:.2f}", filled from a row; a value of None leaves nothing.
Columns = Mapping[str, str]
Row = Mapping[str, Any]


class _Nothing:
    """A value that is not there, whatever its format."""

    def __format__(self, form: str) -> str:
        return ""


def cells(columns: Columns, row: Row) -> list[str]:
    """Fill the columns' templates from a row; KeyError if it lacks a name."""
    filled = {name: _Nothing() if value is None else value for name, value in row.items()}
    return [template.format_map(filled) for template in columns.values()]


def markdown(columns: Columns, rows: Iterable[Row], *, head: bool = True) -> str:
    """Return rows as a Markdown table, without a line end after the last; `head` false leaves out the headings."""
    return lines([list(columns), *(cells(columns, row) for row in rows)], head=head)


def lines(rows: Sequence[Sequence[str]], *, head: bool = True) -> str:
    """Return rows of cells as a Markdown table, the first being its headings, which `head` false leaves out."""
    rule = ["---"] * len(rows[0])
    return "\n".join(f"| {' | '.join(row)} |" for row in ([rows[0], rule, *rows[1:]] if head else rows[1:]))


def terminal(columns: Columns, rows: Iterable[Row], *, title: str = "", remarks: Sequence[str] = ()) -> Table:
    """Return rows as a table for a terminal, numbers to the right, with a title above and remarks below it."""
    from rich.markup import escape
    from rich.table import Table

    caption = escape("\n".join(remarks)) or None
    table = Table(box=None, title=escape(title) or None, caption=caption, caption_justify="left")
    filled = [cells(columns, row) for row in rows]
    for at, heading in enumerate(columns):
        numeric = all(row[at][:1].isdigit() for row in filled if row[at])
        table.add_column(heading, justify="right" if numeric else "left")
    for row in filled:
        table.add_row(*map(escape, row))
    return table
