"""Query texts from files and standard input, whatever their format, encoding and line ends."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import chemspec.chem as chem
from chemspec.io import columns, spreadsheets, structures
from chemspec.io.texts import FileError as FileError
from chemspec.io.texts import split_lines
from chemspec.settings import Task
from chemspec.system import extras

TABLES = (".csv", ".tsv", ".tab")
TEXTS = (".smi", ".smiles", ".txt")
ENDINGS = (*TABLES, *TEXTS, ".parquet", ".gz", ".xlsx", *structures.ENDINGS)  # of all that can be read
UNREAD = frozenset(
    (".json", ".jsonl", ".pdf", ".cdx", ".mol2", ".pdb", ".cif", ".xyz", ".xls", ".ods", ".doc", ".docx")
)


Tell = Callable[[str], None]


def read_queries(path: Path, column: str = "", task: Task | None = None, note: Tell = lambda _: None) -> list[str]:
    """The query texts of a file, one a row; see `stream_queries`."""
    return list(stream_queries(path, column, task, note))


def stream_queries(
    path: Path, column: str = "", task: Task | None = None, note: Tell = lambda _: None
) -> Iterator[str]:
    """The query texts of a file of any size, one a row, as they are read.

    Args:
        path: `.csv`, `.tsv` or `.xlsx` with a header, `.parquet`, `.sdf`, `.rdf`, `.mol`, `.rxn` or `.cdxml`, or any
            other text with one query a line (a name after the SMILES is left for the parser to drop); all but parquet
            also as `.gz`.
        column: which column, or two as "a>>b", the sides of a reaction; empty means the only one, or one (or two) with
            a name that is usual for the task.
        task: whose queries they are.
        note: is told which column is read, where others might have been meant.

    Raises:
        FileError: if the file or the column cannot be found or read.
    """
    if path.is_dir():
        raise FileError(f"{path} is a folder; give one file (`chemspec predict --ray` takes all files of a folder)")
    if not path.is_file():
        raise FileError(f"there is no file {path}")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] and suffixes[-1] in UNREAD:
        raise FileError(f"{path}: files that end in {suffixes[-1]} are not read; give one of {' '.join(ENDINGS)}")
    try:
        if suffixes[-1:] == [".parquet"]:
            yield from _from_parquet(path, column, task, note)
            return
        zipped = suffixes[-1:] == [".gz"]
        ending = (suffixes[:-1] if zipped else suffixes)[-1:]
        with gzip.open(path) if zipped else path.open("rb") as file:
            lines = _lines(file)
            rows: Iterator[list[str]] | None = None
            if ending and ending[0] in TABLES:
                rows = _records(lines, ending[0], path)
            elif ending == [spreadsheets.ENDING]:
                rows = spreadsheets.rows(file.read(), path)
            elif ending and ending[0] in structures.ENDINGS:
                rows = structures.rows("".join(lines), path)
            if rows is not None:
                places = _choose(next(rows), column, path, task, note)
                yield from (columns.text(row, places) for row in rows)
            elif column:
                raise FileError(f"{path} has no columns (only tables and .parquet do); leave --column out")
            else:
                yield from _without_blank_end(line.rstrip("\r\n") for line in _checked(lines, path))
    except FileError:
        raise
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise FileError(f"{path} cannot be read: {error}") from error


def _lines(file: Any) -> Iterator[str]:
    """The lines of a binary file with their ends, decoded as `decode_text` does."""
    start = file.read(3)
    file.seek(0)
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        text = io.TextIOWrapper(file, "utf-16", errors="replace", newline="")
        try:
            yield from text
        finally:
            text.detach()  # whoever opened the file closes it
        return
    if start == codecs.BOM_UTF8:
        file.read(3)
    for raw in file:
        line = _decode_line(raw)
        if "\r" in line:
            yield from io.StringIO(line, newline="")  # a line may end so, too
        else:
            yield line


def _checked(lines: Iterable[str], path: Path) -> Iterator[str]:
    for line in lines:
        if "\0" in line:
            raise FileError(f"{path} is no text file; give one of {' '.join(ENDINGS)}")
        yield line


def _without_blank_end(lines: Iterable[str]) -> Iterator[str]:
    blank: list[str] = []
    for line in lines:
        if line.strip():
            yield from blank
            blank.clear()
            yield line
        else:
            blank.append(line)


def unpacked(raw: bytes, name: str, most: int) -> bytes:
    """Return what a .gz file holds.

    Args:
        raw: its bytes.
        name: what messages call it.
        most: bytes that it may unpack to.

    Raises:
        FileError: if it is damaged, or unpacks to more.
    """
    try:
        with gzip.open(io.BytesIO(raw)) as file:
            content = file.read(most + 1)  # and not one byte more, whatever the file promises
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{name} cannot be unpacked: {error}") from error
    if len(content) > most:
        raise FileError(f"{name} unpacks to more than {most // 1_000_000} MB, the limit; split it")
    return content


def lines_of(stream: TextIO) -> list[str]:
    """Queries from standard input, one a line, in whatever encoding."""
    buffer = getattr(stream, "buffer", None)
    return split_lines(decode_text(buffer.read()) if buffer else stream.read())


def decode_text(raw: bytes) -> str:
    """Text of unknown encoding: UTF-16 with mark, else UTF-8, else line by line UTF-8 or Latin-1."""
    if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return raw.decode("utf-16", errors="replace")
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "\n".join(map(_decode_line, raw.split(b"\n")))


def _decode_line(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        # Most likely a spreadsheet's export. SMILES are ASCII: only names can come out wrong.
        return raw.decode("latin-1")


def records(text: str, ending: str, where: object) -> Iterator[list[str]]:
    """The rows of a CSV or TSV, all as long as the first, which is the header; blank lines are no rows.

    Args:
        text: of the file.
        ending: ".csv" finds the separator by itself; others are separated by tabs.
        where: what messages call the file.

    Raises:
        FileError: if it is empty or no table.
    """
    return _records(io.StringIO(text, newline=""), ending, where)


def _records(lines: Iterable[str], ending: str, where: object) -> Iterator[list[str]]:
    lines = iter(lines)
    blank = 0
    for first in lines:
        if first.strip():
            break
        blank += 1
    else:
        raise FileError(f"{where} is empty")
    # Spreadsheets of many countries part their cells by semicolons.
    separator = max(",;\t", key=first.count) if ending == ".csv" else "\t"
    reader = csv.reader(chain([first], lines), delimiter=separator, strict=True)
    try:
        header = next(reader)
        yield header
        for row in reader:
            if any(row[len(header) :]):
                message = f"line {blank + reader.line_num} has {len(row)} cells, the header {len(header)}"
                raise FileError(f"{where}: {message}; quote the cells that hold a {separator!r}")
            if row:
                yield row[: len(header)] + [""] * (len(header) - len(row))
    except csv.Error as error:
        raise FileError(f"{where} is no table: {error}") from error


def _from_parquet(path: Path, column: str, task: Task | None, note: Tell) -> Iterator[str]:
    extras.require("pyarrow", what=f"{path} is a parquet file")
    from pyarrow import ArrowException, parquet  # half a second that only its users should pay

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            chosen = [names[place] for place in _choose(names, column, path, task, note)]
            for batch in file.iter_batches(columns=chosen):
                places = [batch.schema.get_all_field_indices(name)[0] for name in chosen]  # in the order of the file
                for cells in zip(*(batch.column(place).to_pylist() for place in places), strict=True):
                    yield columns.text(["" if value is None else str(value) for value in cells], range(len(cells)))
    except (ArrowException, OverflowError) as error:  # not all of them are ValueErrors
        raise FileError(f"{path} cannot be read: {error}") from error


def _choose(names: Sequence[str], column: str, path: Path, task: Task | None, note: Tell) -> Sequence[int]:
    """The place of the column that is meant, or of two that are the sides of a reaction."""
    shown = ", ".join(names)
    if column:
        sides = [column] if column in names else column.split(chem.ARROW)
        if set(sides) <= set(names):
            return [names.index(side) for side in sides]
        raise FileError(f"{path} has no column {column!r}; it has {shown}. Choose with --column")
    if places := columns.usual(names, task):
        if told := columns.note(names, places):
            note(f"{path}: {told}; --column chooses another")
        return places
    if len(names) != 1:
        message = f"{path} has no column with a usual name{f' for {task}' if task else ''}; it has {shown}"
        raise FileError(f"{message}. Choose one with --column")
    if chem.is_valid(names[0]):
        message = f"{path} has no header: its first line is the SMILES {names[0]}"
        raise FileError(f"{message}. Put a line with a name above it, or call the file .smi")
    if columns.usual(names):
        note(f"{path}: the queries are read from {names[0]}, its only column")
    return [0]


def usual_column(names: Sequence[str]) -> int | None:
    """The place of the column whose name says that it holds SMILES, whatever the task."""
    return next(iter(columns.usual(names)), None)


def looks_like_file(text: str) -> bool:
    """Whether an argument is meant as a file and not as a SMILES."""
    path = Path(text)
    if path.suffix.lower() in {*ENDINGS, *UNREAD}:
        return True
    try:
        return (path.is_file() or bool(path.name and path.is_dir())) and not chem.is_valid(text)
    except OSError:  # too long for a file name
        return False
