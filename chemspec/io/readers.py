"""Read query texts from files and standard input of any supported format, encoding and line ends."""

import codecs
import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO, overload

import chemspec.chem as chem
from chemspec.chem.molecules.traced_text import TracedText
from chemspec.chem.reading.flask import JOINED, is_title, read_mixture
from chemspec.chem.reading.values import Molecules
from chemspec.data.reaction_records import is_reaction_file, read_reaction_file
from chemspec.io import FileError as FileError
from chemspec.io import columns, spreadsheets, structures
from chemspec.io.json_lines import read_json_lines
from chemspec.settings import Task
from chemspec.system import extras
from chemspec.system.stand_ins import START, refuse_stand_in
from chemspec.tasks import about_reactions
from chemspec.types import Tell, ignore

TABLES = (".csv", ".tsv", ".tab")
MAX_TITLE = 200  # characters
TITLED = (".smi", ".smiles")  # a SMILES and its title per line
TEXTS = (*TITLED, ".txt")
ENDINGS = (
    *TABLES,
    *TEXTS,
    ".parquet",
    ".jsonl",
    ".gz",
    ".xlsx",
    *structures.ENDINGS,
    ".pb",
    ".rsmi",
    ".xml",
)  # all supported endings
csv.field_size_limit(100_000_000)  # characters of a cell, such as a molfile; Python's own limit is 131,072
HEAD = 12  # lines that tell a structure file from a list
_REACTION_ARROW = re.compile(r"(?<!-)>.*(?<!-)>\s*\S|\u2192")  # arrow of a line that is a whole reaction
UNSUPPORTED = {".json", ".pdf", ".cdx", ".mol2", ".pdb", ".cif", ".xyz", ".xls", ".ods", ".doc", ".docx"}.difference(
    structures.ENDINGS
)

_COUNTS = re.compile(r"\s*\d[\d\s]*\bV[23]000\s*$", re.IGNORECASE)
# What catalogues and programs number molecules with. A word without digits may be the name of a second molecule.
_IDENTIFIER = re.compile(
    r"\d+|[A-Za-z]{1,12}[-_:]?\d{2,}[\w-]*|\w*?(?:mol|cpd|cmpd|compound|molecule|ligand|entry|id|no)[-_.:#]?\d+",
    re.IGNORECASE,
)


_INCHIKEY = re.compile(r"\s*[A-Z]{14}-[A-Z]{10}-[A-Z](?:\s|$)")


class PackedRows(Sequence[list[str]]):
    """Rows of cells, each a single text in memory: short cells alone would weigh ten times as much as their file."""

    def __init__(self) -> None:
        self._rows: list[str] = []

    def append(self, cells: Sequence[str]) -> None:
        """Add a row."""
        self._rows.append(json.dumps(cells, ensure_ascii=False))

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> list[str]: ...

    @overload
    def __getitem__(self, index: slice) -> list[list[str]]: ...

    def __getitem__(self, index: int | slice) -> list[str] | list[list[str]]:
        rows = self._rows[index]
        return json.loads(rows) if isinstance(rows, str) else list(map(json.loads, rows))


class QueryList(list[str]):
    """Query texts, one per row of a file, with names and cells of its other columns."""

    def __init__(self, texts: Iterable[str], columns: Sequence[str] = (), cells: Sequence[Sequence[str]] = ()) -> None:
        super().__init__(texts)
        self.columns, self.cells = columns, cells


def read_queries(path: Path, column: str = "", task: Task | None = None, note: Tell = ignore) -> QueryList:
    """Return the query texts of a file, one per row; see `stream_queries`."""
    rows = _stream_rows(path, column, task, note)
    names, texts, cells = next(rows), [], PackedRows()
    for text, *others in rows:
        texts.append(text)
        if names:
            cells.append(others)
    return QueryList(texts, names, cells)


def read_given_texts(
    given: Sequence[str], column: str, task: Task | None, note: Tell = ignore
) -> tuple[list[str], str]:
    """Return the texts given on a command line: as they are, or of one file, or of standard input ("-").

    Also returns where they come from: the file, "standard input", or an empty text. ValueError for a file among others.
    """
    if list(given) == ["-"]:
        return read_stdin_lines(sys.stdin), "standard input"
    if len(given) == 1 and looks_like_file(given[0]):
        return read_queries(Path(given[0]), column, task, note), given[0]
    for text in filter(looks_like_file, given):
        raise ValueError(f"{text} is a file; give one file, or SMILES, but not both")
    return list(given), ""


def read_given_reactions(given: str, column: str, note: Tell = ignore) -> list[str]:
    """Return reactions as `read_given_texts` does; lines of a file without an arrow are one of them, such as an RXN."""
    lines, source = read_given_texts([given], column, about_reactions(), note)
    if not source:
        return lines
    if not (texts := [line for line in lines if line.strip()]):
        raise ValueError(f"there is no reaction in {source}")
    if any(map(_REACTION_ARROW.search, texts)):
        return texts
    if column:
        raise ValueError(f"{source}: no row of column {column} has a reaction, such as reactants>>product")
    return ["\n".join(lines)]


def stream_queries(path: Path, column: str = "", task: Task | None = None, note: Tell = ignore) -> Iterator[str]:
    """Yield the query texts of a file of any size, one per row; FileError if it or its column is missing or unreadable.

    The file is `.csv`, `.tsv` or `.xlsx` with a header, `.parquet`, `.jsonl`, `.sdf`, `.rdf`, `.mol`, `.rxn`, `.cdxml`
    or `.ket`, or any other text with one query per line (in a `.smi` a SMILES and its title) or with structures like
    those of these files; all but parquet also as `.gz`. The column is a name, or two as "a>>b" for the sides of a
    reaction; empty takes the only one, or one (or two) with a usual name for the task. If that choice is ambiguous,
    `note` is called with a message on which column is read.
    """
    yield from (row[0] for row in islice(_stream_rows(path, column, task, note), 1, None))


def _stream_rows(path: Path, column: str, task: Task | None, note: Tell) -> Iterator[list[str]]:
    """Yield the names of the other columns, then for each row its query text and the cells of these columns."""
    if path.is_dir():
        raise FileError(f"{path} is a folder; give one file (`chemspec predict --ray` takes all files of a folder)")
    if not path.is_file():
        raise FileError(f"there is no file {path}")
    refuse_stand_in(path, path, FileError)
    suffix = path.suffix.lower()
    if is_reaction_file(path):
        yield from _reaction_rows(path, column, task, note)
        return
    if suffix in UNSUPPORTED:
        raise FileError(f"{path}: files that end in {suffix} are not read; give one of {' '.join(ENDINGS)}")
    try:
        if suffix == ".parquet":
            yield from _parquet_rows(path, column, task, note)
            return
        zipped = suffix == ".gz"
        with gzip.open(path) if zipped else path.open("rb") as file:
            ending = Path(path.stem).suffix.lower() if zipped else suffix
            if ending == spreadsheets.ENDING:
                rows = spreadsheets.read_workbook_rows(file.read(), path, column, note)
            else:
                head, lines = look_ahead(_decode_lines(file))
                if ending == ".jsonl":
                    rows = read_json_lines(lines, path)
                elif ending in TABLES:
                    rows = _iterate_table(lines, ending, path, column)
                elif ending in structures.ENDINGS or is_structure_file(head):
                    rows = structures.read_structure_rows("".join(lines), path, note)
                elif column:
                    raise FileError(f"{path} has no columns (only tables and .parquet do); leave --column out")
                else:
                    yield []
                    yield from ([text] for text in read_list(_text_lines(lines, path), titled=ending in TITLED))
                    return
            header = next(rows)
            indices = _choose_columns(header, column, path, task, note)
            others = [index for index in range(len(header)) if index not in indices]
            yield [header[index] for index in others]
            for row in rows:
                yield [columns.query_of_row(row, indices), *(row[index] for index in others)]
    except FileError:
        raise
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise FileError(f"{path} cannot be read: {error}") from error


def _reaction_rows(path: Path, column: str, task: Task | None, note: Tell) -> Iterator[list[str]]:
    """Yield the header and rows of a file of reactions as `_stream_rows` does."""
    try:
        rows = read_reaction_file(path)
        first = next(rows, None)
        if first is None:
            raise FileError(f"{path} has no reactions")
        header = [*first]
        indices = _choose_columns(header, column, path, task, note)
        others = [index for index in range(len(header)) if index not in indices]
        yield [header[index] for index in others]
        for row in chain([first], rows):
            cells = [row[name] for name in header]
            yield [columns.query_of_row(cells, indices), *(cells[index] for index in others)]
    except ValueError as error:
        raise error if isinstance(error, FileError) else FileError(str(error)) from error


def is_structure_file(head: Iterable[str]) -> bool:
    """Return whether a text with these first lines is a structure file of `reader.FORMATS`, whatever its name."""
    lines = [line.strip("\ufeff \t\r\n") for line in head]
    first = next(filter(None, lines), "")
    return first.startswith(structures.STARTS) or any(map(_COUNTS.match, lines))


def read_list(lines: Iterable[str], *, titled: bool = False) -> Iterator[str]:
    """Yield the queries of a list without comments and heading, a SMILES before its identifier; blank lines stay.

    Those at the end do not. In a `titled` list what follows a SMILES is its title, whatever molecule that names.
    """
    blank: list[str] = []
    is_first = True
    for line in (text.rstrip("\r\n") for text in lines):
        if not line.strip():
            blank.append(line)
        elif _INCHIKEY.match(line):  # no SMILES, whatever follows it
            yield from (*blank, line)
            blank.clear()
            is_first = False
        elif not columns.is_comment(line):
            yield from blank
            blank.clear()
            if not (is_first and _is_heading(line)):
                yield _without_reactant(_smiles_first(line)) if titled else _smiles_first(line)
            is_first = False


def _is_heading(line: str) -> bool:
    words = re.split(r"[\s,;]+", line.strip())
    return bool(columns.find_query_columns(words)) and not any(chem.is_valid(word) for word in words[:2])


def _smiles_first(line: str) -> str:
    """Return a line that begins with an identifier with its SMILES in front."""
    words = line.split()
    if len(words) < 2 or not _IDENTIFIER.fullmatch(words[0]) or chem.is_valid(words[0]) or not chem.is_valid(words[1]):
        return line
    return " ".join((words[1], words[0], *words[2:]))


def _without_reactant(line: str) -> str:
    """Return a line without its title if that would be read as a further reactant, such as the name of the product."""
    smiles, *title = line.split(maxsplit=1)
    if title and len(title[0]) > MAX_TITLE:  # reading it word by word would take long
        return smiles if chem.is_valid(smiles) else line
    if not title or title[0][0] in "|,;+&" or is_title(TracedText.of(title[0])):  # sooner than the line is read
        return line
    if not chem.is_valid(smiles) or any(map(chem.is_valid, title[0].split())):
        return line
    read = read_mixture(TracedText.of(line), is_target=False)
    return line if isinstance(read, Molecules) and JOINED not in read.notes else smiles


def look_ahead(lines: Iterable[str], count: int = HEAD) -> tuple[list[str], Iterator[str]]:
    """Return the first lines, and all of them to read."""
    rest = iter(lines)
    head = list(islice(rest, count))
    return head, chain(head, rest)


def _decode_lines(file: Any) -> Iterator[str]:
    """Yield the lines of a binary file with line ends, decoded as in `decode_text`."""
    start = file.read(START)
    file.seek(0)
    refuse_stand_in(start, "this", FileError)
    if start[:3] == b"PK\x03":
        raise FileError("this is an Excel workbook or another zip archive, not text; name a workbook .xlsx")
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        text = io.TextIOWrapper(file, "utf-16", errors="replace", newline="")
        try:
            yield from text
        finally:
            text.detach()  # the caller closes the file
        return
    if start.startswith(codecs.BOM_UTF8):
        file.read(3)
    for raw in file:
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:  # most likely from a spreadsheet; SMILES are ASCII, so only names can be wrong
            line = raw.decode("latin-1")
        if "\r" in line:
            yield from io.StringIO(line, newline="")  # "\r" is a line end too
        else:
            yield line


def _text_lines(lines: Iterable[str], path: Path) -> Iterator[str]:
    for line in lines:
        if "\0" in line:
            raise FileError(f"{path} is not a text file; give one of {' '.join(ENDINGS)}")
        yield line.rstrip("\r\n")


def read_stdin_lines(stream: TextIO | None) -> list[str]:
    """Return queries from standard input in any encoding, one per line or per record of a structure file."""
    if stream is None:
        raise FileError("standard input is closed; give a file, or pipe queries into the command")
    buffer = getattr(stream, "buffer", None)
    return read_text(decode_text(buffer.read()) if buffer else stream.read(), "standard input")


def read_text(text: str, where: object) -> list[str]:
    """Return the queries of a text without columns, one per line or record; FileError for a file without records."""
    head, lines = look_ahead(io.StringIO(text, newline=""))
    if not is_structure_file(head):
        return list(read_list(lines))
    return [row[0] for row in structures.read_structure_rows(text, where)][1:]


def decode_text(raw: bytes) -> str:
    """Decode text of unknown encoding: UTF-16 with byte order mark, else UTF-8, else UTF-8 or Latin-1 line by line."""
    return "".join(_decode_lines(io.BytesIO(raw)))


def read_table(text: str, ending: str, where: object) -> Iterator[list[str]]:
    """Yield the rows of a CSV or TSV padded to the header, which is first, no blank ones; FileError if none."""
    return _iterate_table(io.StringIO(text, newline=""), ending, where)


def _iterate_table(lines: Iterable[str], ending: str, where: object, column: str = "") -> Iterator[list[str]]:
    head, lines = look_ahead(lines, spreadsheets.MAX_ABOVE)
    if not any(map(str.strip, head)) and all(not line.strip() for line in lines):
        raise FileError(f"{where} is empty")
    separator, above = _table_layout(head, ",;\t|" if ending == ".csv" else "\t", column)
    reader = csv.reader(islice(lines, above, None), delimiter=separator, strict=True)
    header: list[str] = []
    try:
        for row in reader:
            if not header:
                if any(map(str.strip, row)):
                    header = [cell.removeprefix("\ufeff") for cell in row]
                    yield header
                continue
            if any(row[len(header) :]):
                message = f"line {above + reader.line_num} has {len(row)} cells, the header {len(header)}"
                raise FileError(f"{where}: {message}; quote the cells that hold a {separator!r}")
            if row:
                yield row[: len(header)] + [""] * (len(header) - len(row))
    except csv.Error as error:
        raise FileError(f"{where} is not a table: {error}") from error


def _table_layout(head: Sequence[str], separators: str, column: str) -> tuple[str, int]:
    """Return the separator of a table's cells (perhaps named by a line `sep=;`), and the number of lines above it."""
    above = 0
    for at, line in enumerate(head):
        if not line.strip():
            continue
        if match := re.fullmatch(r"\ufeff?\"?sep=(.)\"?\s*", line, re.IGNORECASE):
            separators, above = match[1], at + 1
        break
    layouts = []
    for sign in separators:
        rows = [_cells(line, sign) for line in head[above:]]
        at = columns.find_header(rows, column)
        names = rows[at] if rows else []
        query_columns = columns.columns_by_name(names, column) if column else columns.find_query_columns(names)
        layouts.append((bool(query_columns) and len(names) > 1, len(names), sign, above + at))
    return max(layouts, key=lambda layout: layout[:2])[2:]


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=separator), [])
    except csv.Error:
        return [line]


def _parquet_rows(path: Path, column: str, task: Task | None, note: Tell) -> Iterator[list[str]]:
    """Yield the header and rows of a Parquet file as `_stream_rows` does, without columns of lists and structures."""
    extras.require_packages("pyarrow", what=f"{path} is a parquet file")
    from pyarrow import ArrowException, parquet, types  # a slow import

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            indices = _choose_columns(schema.names, column, path, task, note)
            others = (k for k, kind in enumerate(schema.types) if k not in indices and not types.is_nested(kind))
            chosen = [schema.names[index] for index in (*indices, *others)]
            yield chosen[len(indices) :]
            for batch in file.iter_batches(columns=chosen):
                # Columns are in the order of the file.
                at = [batch.schema.get_all_field_indices(name)[0] for name in chosen]
                for cells in zip(*(batch.column(index).to_pylist() for index in at), strict=True):
                    texts = ["" if value is None else str(value) for value in cells]
                    yield [columns.query_of_row(texts, range(len(indices))), *texts[len(indices) :]]
    except (ArrowException, OverflowError) as error:  # not all of them are ValueErrors
        raise FileError(f"{path} cannot be read: {error}") from error


def _choose_columns(names: Sequence[str], column: str, path: Path, task: Task | None, note: Tell) -> Sequence[int]:
    """Return the index of the query column, or of two that are the sides of a reaction."""
    shown = ", ".join(names)
    if column:
        if indices := columns.columns_by_name(names, column):
            return indices
        raise FileError(f"{path} has no column {column!r}; it has {shown}. Choose with --column")
    if indices := columns.find_query_columns(names, task):
        if warning := columns.ambiguity_note(names, indices):
            note(f"{path}: {warning}; --column chooses another")
        return indices
    shortest = 1 if len(names) == 1 else 3  # a column may be called N or ON
    if molecule := next((name for name in names if len(name) >= shortest and chem.is_valid(name)), ""):
        message = f"{path} has no header: its first line {'is' if len(names) == 1 else 'holds'} the SMILES {molecule}"
        remedy = "a line with a name above it, or call the file .smi" if len(names) == 1 else "a line of names above it"
        raise FileError(f"{message}. Put {remedy}")
    if len(names) != 1:
        message = f"{path} has no column with a usual name{f' for {task}' if task else ''}; it has {shown}"
        raise FileError(f"{message}. Choose one with --column")
    if columns.find_query_columns(names):
        note(f"{path}: the queries are read from {names[0]}, its only column")
    return [0]


def looks_like_file(text: str) -> bool:
    """Return whether an argument is a file rather than a SMILES."""
    path = Path(text)
    if path.suffix.lower() in {*ENDINGS, *UNSUPPORTED}:
        return True
    try:
        return (path.is_file() or bool(path.name and path.is_dir())) and not chem.is_valid(text)
    except OSError:  # too long for a file name
        return False
