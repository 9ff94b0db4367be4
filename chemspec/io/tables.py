"""Format rows of numbers as tables, in Markdown or for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

# Templates such as "{median_ms:.2f}" by heading; None is formatted as an empty cell.
Columns = Mapping[str, str]
Row = Mapping[str, Any]


class _Nothing:
    """A missing value, empty in any format."""

    def __format__(self, form: str) -> str:
        return ""


def cells(columns: Columns, row: Row) -> list[str]:
    """Fill the columns' templates from a row; raises KeyError for a missing name."""
    filled = {name: _Nothing() if value is None else value for name, value in row.items()}
    return [template.format_map(filled) for template in columns.values()]


def markdown(columns: Columns, rows: Iterable[Row]) -> str:
    """Return rows as a Markdown table, without a final line break."""
    return lines([list(columns), *(cells(columns, row) for row in rows)])


def lines(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a Markdown table; the first row are the headings, with ":" of right-aligned columns."""
    head, rule = zip(*((title.rstrip(":"), "--:" if title.endswith(":") else "---") for title in rows[0]), strict=True)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows[1:]])


def terminal(columns: Columns, rows: Iterable[Row], *, title: str = "", remarks: Sequence[str] = ()) -> Table:
    """Return rows as a table for a terminal, numbers right-aligned, with a title above and remarks below it."""
    from rich.markup import escape
    from rich.table import Table

    caption = escape("\n".join(remarks)) or None
    table = Table(box=None, title=escape(title) or None, caption=caption, caption_justify="left")
    filled = [cells(columns, row) for row in rows]
    for column, heading in enumerate(columns):
        numeric = all(row[column][:1].isdigit() for row in filled if row[column])
        table.add_column(heading, justify="right" if numeric else "left")
    for row in filled:
        table.add_row(*map(escape, row))
    return table
