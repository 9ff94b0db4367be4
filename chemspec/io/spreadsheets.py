"""Excel workbooks as rows of text, and rows as workbooks; formulas are neither computed nor written."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from math import isfinite
from typing import Any

from chemspec.io.texts import FileError
from chemspec.system import extras

ENDING = ".xlsx"
MIME = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MOST_UNPACKED = 200_000_000  # bytes that the parts of a workbook may say they have; none can have more than it says
MOST_COLUMNS = 1000
LONGEST_CELL = 32_767  # characters; Excel's own limit


def rows(raw: bytes, where: object) -> Iterator[list[str]]:
    """Yield the rows of the first sheet that has any, the first being the header, all as long as that; blank ones not.

    Of a formula the result is taken that the spreadsheet stored with it.

    Args:
        raw: the bytes of an .xlsx file.
        where: what messages call the file.

    Raises:
        FileError: if it is no workbook, is empty, unfolds to too much, or a row has more cells than the header.
    """
    extras.require("openpyxl", what=f"{where} is a workbook")
    import openpyxl  # a third of a second that only its users should pay

    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            size = sum(part.file_size for part in archive.infolist())
        if size > MOST_UNPACKED:
            raise FileError(f"{where} unfolds to {size / 1e6:,.0f} MB; {MOST_UNPACKED // 1_000_000} are the limit")
        book = openpyxl.load_workbook(io.BytesIO(raw), read_only=True, data_only=True, keep_links=False)
        header: list[str] = []
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # what a file says of its size need not be true
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
                row = _texts(cells)
                if len(row) > MOST_COLUMNS:
                    raise FileError(f"{where}: row {number} has {len(row):,} cells; {MOST_COLUMNS:,} are the limit")
                if header and len(row) > len(header):
                    raise FileError(f"{where}: row {number} has {len(row)} cells, the header {len(header)}")
                if row:
                    header = header or row
                    yield row + [""] * (len(header) - len(row))
            if header:
                return
    except FileError:
        raise
    except Exception as error:  # openpyxl raises whatever a broken part makes it stumble over
        raise FileError(f"{where} is no workbook that can be read ({type(error).__name__}: {error})"[:300]) from error
    raise FileError(f"{where} is empty")


def _texts(cells: Sequence[Any]) -> list[str]:
    row = [_text(value) for value in cells]
    while row and not row[-1].strip():
        row.pop()
    return row


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def write(head: Sequence[str], lines: Iterable[Sequence[object]]) -> bytes:
    """Return a workbook of one sheet; every cell is a number or a text, none a formula."""
    extras.require("openpyxl", what="the file would be a workbook")
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Font

    book = Workbook(write_only=True)
    sheet = book.create_sheet("answers")
    sheet.freeze_panes = "A2"

    def cell(value: object, *, bold: bool = False) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
            return WriteOnlyCell(sheet, value)
        made = WriteOnlyCell(sheet, _printable(str(value)))
        made.data_type = "s"  # whatever it begins with
        if bold:
            made.font = Font(bold=True)
        return made

    sheet.append([cell(name, bold=True) for name in head])
    for line in lines:
        sheet.append([None if value in ("", None) else cell(value) for value in line])
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _printable(text: str) -> str:
    """Return what XML can hold of a text."""
    kept = "".join(char if char >= " " or char in "\t\n" else " " for char in text[:LONGEST_CELL])
    return kept.encode("utf-8", errors="replace").decode("utf-8").replace("\ufffe", " ").replace("\uffff", " ")
