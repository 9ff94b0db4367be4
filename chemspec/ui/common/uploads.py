"""An uploaded file as rows of text; nothing in it can take more memory or time than is set here.

The name of a file says how it is to be read and is shown; it is never opened.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chemspec import chem
from chemspec.chem.names import reagents
from chemspec.io import columns as known
from chemspec.io import lines as lists
from chemspec.io import spreadsheets, structures
from chemspec.io.readers import TABLES, TEXTS, decode_text, decompress, read_table
from chemspec.io.texts import FileError, split_lines
from chemspec.settings import Task
from chemspec.ui.common import unfold

MOST_MB = 10  # of a file
MOST_LIST_MB = 20  # of a list of what can be bought; as many as the server takes (.streamlit/config.toml)
MOST_TEXT = 20_000_000  # bytes of a file once it is unpacked
MOST_ROWS = 10_000
MOST_COLUMNS = 50
FOLDED = (".parquet", spreadsheets.ENDING)  # read by a process of its own
ENDINGS = tuple(ending[1:] for ending in (*TABLES, *TEXTS, *structures.ENDINGS, *FOLDED, ".gz"))
LIMITS = (
    f"CSV, TSV, XLSX, SDF, RDF, MOL, RXN, CDXML, KET, SMI, TXT or Parquet, also as .gz; up to {MOST_MB} MB "
    f"({MOST_TEXT // 1_000_000} MB unpacked), {MOST_ROWS:,} rows, {MOST_COLUMNS} columns"
)


@dataclass(frozen=True)
class Sheet:
    """What a file holds; a plain list of SMILES has one column, without a name."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def texts(self, column: int) -> list[str]:
        """Return a column."""
        return ["" if row[column].strip() in known.EMPTY else row[column] for row in self.rows]


def read(raw: bytes, name: str, *, header: bool = True) -> Sheet:
    """Return the rows of a file.

    Args:
        raw: its bytes.
        name: tells by its ending how to read it.
        header: whether the first line of a table holds the names of its columns; a parquet file has them anyway.

    Raises:
        FileError: if it cannot be read or is beyond a limit, saying which.
    """
    if len(raw) > MOST_MB * 1_000_000:
        raise FileError(f"the file has {len(raw) / 1e6:.0f} MB; {MOST_MB} are the limit, so split it")
    stem, ending = _ending(name)
    if ending == ".gz":
        raw = decompress(raw, "the file", MOST_TEXT)
        ending = _ending(stem)[1]
    if ending in FOLDED:
        return _table(_unfold(raw, ending), ".tsv", header=header or ending == ".parquet")
    if ending not in (*TABLES, *TEXTS, *structures.ENDINGS):
        known = ", ".join((*TABLES, *TEXTS, *structures.ENDINGS, *FOLDED))
        raise FileError(f"files that end in {ending or 'nothing'} cannot be read here; take {known}")
    text = decode_text(raw)
    if "\0" in text:
        raise FileError("the file holds no text; a spreadsheet must be saved as CSV first")
    lines = text.split("\n", lists.HEAD)[: lists.HEAD]
    if ending in structures.ENDINGS or (ending in TEXTS and lists.is_structure_file(lines)):
        if (count := text.count("$$$$") + text.count("$RFMT") + text.count("$MFMT")) > 2 * MOST_ROWS:
            raise FileError(f"the file has about {count:,} records; {MOST_ROWS:,} are the limit, so split it")
        unfolded = _unfold(text.encode("utf-8", errors="replace"), unfold.STRUCTURES)
        return _rows(map(json.loads, unfolded.splitlines()), header=True)
    return _table(text, ending, header=header) if ending in TABLES else _list(text)


def has_header(sheet: Sheet, column: int) -> bool:
    """Return whether the first line of a table, read as its header, looks like one; a molecule is rather a row."""
    name = sheet.columns[column]
    return len(name) < 3 or not chem.is_valid(name)


def guess_column(columns: Sequence[str], rows: Sequence[Sequence[str]], task: Task | None = None) -> int:
    """Return the place of the column with the queries of a task, by its name or else by the molecules in these rows."""
    if len(named := known.find_query_columns(columns, task)) == 1:
        return named[0]

    def molecules(place: int) -> int:
        # A number such as 1 is no SMILES, but a name such as I or CO may be one: longer ones count more.
        words = [(row[place], row[place].split()) for row in rows]
        smiles = sum(len(word[0]) for _, word in words if word and chem.is_valid(word[0]))
        return smiles or sum(bool(reagents.find_by_name(text)) for text, _ in words)

    return max(range(len(columns)), key=molecules)


def _ending(name: str) -> tuple[str, str]:
    stem, point, ending = name.lower().rpartition(".")
    return stem, point + ending if point else ""


def bought(raw: bytes, name: str, kind: str) -> bytes:
    """Return what `unfold.bought` makes of a file of at most `MOST_LIST_MB`, in a process of its own.

    Raises:
        FileError: if it cannot be read or is beyond a limit, saying which.
    """
    if len(raw) > MOST_LIST_MB * 1_000_000:
        raise FileError(f"the file has {len(raw) / 1e6:.0f} MB; {MOST_LIST_MB} are the limit")
    return _apart(raw, kind, "".join(filter(str.isprintable, name)))


def _unfold(raw: bytes, ending: str) -> str:
    try:
        return _apart(raw, ending).decode("utf-8")
    except _WrongError as error:
        raise FileError(f"the file cannot be used: {error}") from None


def _apart(raw: bytes, kind: str, name: str = "") -> bytes:
    limits = map(str, (MOST_TEXT, MOST_ROWS, MOST_COLUMNS))
    try:
        done = subprocess.run(
            [sys.executable, "-m", unfold.__name__, kind, name, *limits],
            input=raw,
            capture_output=True,
            timeout=3 * unfold.seconds(kind),
        )
    except subprocess.TimeoutExpired:
        raise FileError("the file takes too long to read; split it, or save it as CSV") from None
    if done.returncode == 3:
        raise _WrongError(done.stderr.decode(errors="replace"))
    if done.returncode:
        raise FileError("the file is damaged, or takes more memory or time than a file may")
    return done.stdout


class _WrongError(FileError):
    """What the process says of a file."""


def _table(text: str, ending: str, *, header: bool) -> Sheet:
    return _rows(read_table(text, ending, "the file"), header=header)


def _rows(lines: Iterator[list[str]], *, header: bool) -> Sheet:
    names = next(lines)
    if len(names) > MOST_COLUMNS:
        raise FileError(f"the file has {len(names):,} columns; {MOST_COLUMNS} are the limit")
    rows: list[tuple[str, ...]] = []
    if not header:
        rows.append(tuple(names))
        names = [f"column {k}" for k in range(1, len(names) + 1)]
    for line in lines:
        rows.append(tuple(line))
        if len(rows) > MOST_ROWS:
            break
    return _sheet(tuple(names), rows)


def _list(text: str) -> Sheet:
    return _sheet(("",), [(line,) for line in lists.read_list(split_lines(text.rstrip()))])


def _sheet(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> Sheet:
    if len(rows) > MOST_ROWS:
        raise FileError(f"the file has more than {MOST_ROWS:,} rows, the limit; split it")
    if not rows:
        raise FileError("the file holds no rows")
    return Sheet(names, tuple(rows))
