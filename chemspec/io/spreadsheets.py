"""Read and write Excel workbooks, and write CSV; formulas are neither evaluated nor written."""

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from typing import Any

from chemspec.io import FileError, columns
from chemspec.system import extras
from chemspec.types import Tell, ignore

ENDING = ".xlsx"
MIME = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MAX_UNPACKED = 200_000_000  # maximum declared size of a workbook's parts, which cannot exceed it
MAX_COLUMNS = 1000
MAX_ABOVE = 20  # rows of titles and comments above the header of a table
MAX_CELL_LENGTH = 32_767  # characters; Excel's own limit
MAX_NUMBER = 9.99e307  # Excel's own limit; larger ones, and what is no number, are written as text
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


def read_workbook_rows(raw: bytes, where: object, column: str = "", note: Tell = ignore) -> Iterator[list[str]]:
    """Yield the rows of the visible sheets with queries, padded to the length of the header, which is first.

    These are the first sheet whose header has usual names (or `column`), and all others with the same header; without
    one, the first sheet with content. `note` is called with the names of other sheets with content. Blank rows are
    skipped, and titles above the header. Formulas give the result stored with them. FileError if it is not a workbook,
    empty or too large, or a row has more cells than the header.
    """
    extras.require_packages("openpyxl", what=f"{where} is a workbook")
    import openpyxl  # a slow import

    if not raw.startswith(b"PK") and b"\0" not in raw[:1000]:
        raise FileError(f"{where} is no workbook but text; name it .csv")
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            size = sum(part.file_size for part in archive.infolist())
        if size > MAX_UNPACKED:
            raise FileError(
                f"{where} decompresses to {size / 1e6:,.0f} MB; the limit is {MAX_UNPACKED // 1_000_000} MB"
            )
        book = openpyxl.load_workbook(io.BytesIO(raw), read_only=True, data_only=True, keep_links=False)
        if chosen := _choose_sheets(book, where, column, note):
            header = chosen[0].header
            yield header
            for sheet in chosen:
                for number, row in islice(_filled_rows(sheet.sheet, where), sheet.skipped, None):
                    if len(row) > len(header):
                        raise FileError(f"{where}: row {number} has {len(row)} cells, the header {len(header)}")
                    yield row + [""] * (len(header) - len(row))
            return
    except FileError:
        raise
    except Exception as error:  # openpyxl raises errors of many types
        raise FileError(f"{where} is not a readable workbook ({type(error).__name__}: {error})"[:300]) from error
    raise FileError(f"{where} is empty")


@dataclass(frozen=True)
class _Sheet:
    """A sheet with content, its header, and how many rows with content end with that."""

    sheet: Any
    header: list[str]
    skipped: int
    has_queries: bool


def _choose_sheets(book: Any, where: object, column: str, note: Tell) -> list[_Sheet]:
    """Return the sheets that are read; hidden ones only if no other one has content."""
    sheets: list[_Sheet] = []
    visible = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    for sheet in visible:
        sheet.reset_dimensions()  # the declared dimensions may be wrong
        if head := [row for _, row in islice(_filled_rows(sheet, where), MAX_ABOVE)]:
            at = columns.find_header(head, column)
            names = columns.columns_by_name(head[at], column) if column else columns.find_query_columns(head[at])
            sheets.append(_Sheet(sheet, head[at], at + 1, bool(names)))
    first = next((sheet for sheet in sheets if sheet.has_queries), sheets[0] if sheets else None)
    if first is None:
        return []
    chosen = [sheet for sheet in sheets if sheet is first or (first.has_queries and sheet.header == first.header)]
    left_out = [sheet.sheet.title for sheet in sheets if sheet not in chosen]
    hidden = [sheet.title for sheet in book.worksheets if sheet not in visible]
    if len(chosen) > 1 or left_out or hidden:
        read = ", ".join(sheet.sheet.title for sheet in chosen)
        others = "; ".join(
            filter(
                None,
                (f"not read: {', '.join(left_out)}" * bool(left_out), f"hidden: {', '.join(hidden)}" * bool(hidden)),
            )
        )
        note(f"{where}: rows of the sheet{'s' * (len(chosen) > 1)} {read}" + f" ({others})" * bool(others))
    return chosen


def _filled_rows(sheet: Any, where: object) -> Iterator[tuple[int, list[str]]]:
    for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
        row = [_cell_text(value) for value in cells]
        while row and not row[-1].strip():
            row.pop()
        if len(row) > MAX_COLUMNS:
            raise FileError(f"{where}: row {number} has {len(row):,} cells; the limit is {MAX_COLUMNS:,}")
        if row:
            yield number, row


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def write_workbook(head: Sequence[str], lines: Iterable[Sequence[object]]) -> bytes:
    """Return a workbook of one sheet, whose cells are numbers or text, never formulas."""
    extras.require_packages("openpyxl", what="the file would be a workbook")
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Font

    book = Workbook(write_only=True)
    sheet = book.create_sheet("answers")
    sheet.freeze_panes = "A2"

    def cell(value: object, *, bold: bool = False) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_NUMBER:
            return WriteOnlyCell(sheet, value)
        styled = WriteOnlyCell(sheet, _xml_safe(str(value)))
        styled.data_type = "s"  # even if it starts with "="
        if bold:
            styled.font = Font(bold=True)
        return styled

    sheet.append([cell(name, bold=True) for name in head])
    for line in lines:
        sheet.append([None if value in ("", None) else cell(value) for value in line])
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _xml_safe(text: str) -> str:
    """Replace characters that XML does not allow, and truncate."""
    clean = "".join(char if char >= " " or char in "\t\n" else " " for char in text[:MAX_CELL_LENGTH])
    return clean.encode("utf-8", errors="replace").decode("utf-8").replace("\ufffe", " ").replace("\uffff", " ")


def single_line(text: str) -> str:
    """Return a text on one line, valid in UTF-8."""
    # A line break in a cell would break "one line per query", on which resuming relies.
    clean = " ".join(text.splitlines()).replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean.encode("utf-8", errors="backslashreplace").decode("utf-8")


def csv_row(values: Iterable[Any]) -> str:
    """Return one line of a CSV, including the line end."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(values)
    return buffer.getvalue()


def escape_formula(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula: with a leading ', which is not shown.

    A formula begins with = + - @ (or their wide forms), maybe after blanks. Numbers stay as they are, and so does every
    SMILES that can be read: none begins with these signs.
    """
    start = text.lstrip()[:1]
    suspicious = start in tuple("=+-@＝＋－＠|%") or text[:1] in tuple("\t\r\n")
    return "'" + text if suspicious and start and not _NUMBER.fullmatch(text.strip()) else text


def table_to_csv(head: Sequence[str], lines: Iterable[Iterable[object]]) -> str:
    """Return a CSV in which no cell is taken for a formula or has line breaks."""
    rows = ([escape_formula(single_line(str(cell))) for cell in line] for line in (head, *lines))
    return "".join(map(csv_row, rows))


def rows_to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows of the same keys as `table_to_csv` does."""
    return table_to_csv([*rows[0]] if rows else [], (row.values() for row in rows))


def rows_to_xlsx(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Return rows of the same keys as a workbook, in which numbers are numbers."""
    return write_workbook([*rows[0]] if rows else [], [[*row.values()] for row in rows])
