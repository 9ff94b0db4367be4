"""Tables to download: as CSV and as a workbook."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from chemspec.io import spreadsheets
from chemspec.io.writers import csv_row, single_line
from chemspec.ui.common.escaping import escape_formula


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
