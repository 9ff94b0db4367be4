"""Read uploaded files as rows of text, within limits of memory and time; no file of the shown name is opened.

A few bytes of Parquet or a workbook can decompress to gigabytes inside the library that reads them, a damaged file or a
structure that crashes RDKit can end the whole process, and lines of a list may take long to be told from titles. So
files are read by separate processes, of this module as a program, of which few run at once; only such a one ends.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, islice
from pathlib import PurePath
from threading import BoundedSemaphore

import msgspec

from chemspec import chem
from chemspec.chem.molecules.parsing import TRIALS, TooManyTrialsError, Trials
from chemspec.chem.reading.names import reagents
from chemspec.io import FileError, readers, spreadsheets, structures
from chemspec.io import columns as column_names
from chemspec.io.packed_files import decompress
from chemspec.io.readers import TABLES, TEXTS, TITLED, decode_text, read_table
from chemspec.settings import Task
from chemspec.stock import lists, offers
from chemspec.system.forked import limit_process
from chemspec.system.stand_ins import refuse_stand_in
from chemspec.system.threads import usable_cores

MEMORY = 512_000_000  # bytes on top of what Python and the libraries take
MAX_MB = 10  # megabytes of a file
MAX_STOCK_MB = 20  # megabytes of a stock list; as many as the server takes (.streamlit/config.toml)
MAX_TEXT = 20_000_000  # bytes of a file once it is unpacked
MAX_ROWS = 10_000
MAX_COLUMNS = 50
STRUCTURES = ".sdf"  # stands for all files of structures
TEXT = "text"  # stands for tables and lists, which may turn out to be files of structures
STOCK = "stock"  # stands for lists of building blocks with or without prices
READING = BoundedSemaphore(max(2, usable_cores() // 2))  # processes at once
BUSY_SECONDS = 60.0  # time that a file waits for its turn
SAMPLED_CHARS = 20_000  # characters of the rows whose molecules are counted
SAMPLED_TRIALS = 16  # structures among them that are parsed by another process, see `chem.molecules.parsing`
# Kinds of files that are read by a process of their own: a library to import before the limits hold, and seconds of
# computing.
KINDS = {
    ".parquet": ("pyarrow.parquet", 20),
    spreadsheets.ENDING: ("openpyxl", 20),
    STRUCTURES: ("chemspec.io.structures", 120),
    TEXT: ("chemspec.io.structures", 120),
    STOCK: ("chemspec.stock.lists", 300),
}
COMPRESSED = (".parquet", spreadsheets.ENDING)
ENDINGS = tuple(ending[1:] for ending in (*TABLES, *TEXTS, *structures.ENDINGS, *COMPRESSED, ".gz"))
_STRUCTURE_FILES = ", ".join(ending[1:].upper() for ending in structures.ENDINGS)
LIMITS = (
    f"CSV, TSV, XLSX, Parquet, {_STRUCTURE_FILES}, SMI or TXT, also as .gz; up to {MAX_MB} MB "
    f"({MAX_TEXT // 1_000_000} MB unpacked), {MAX_ROWS:,} rows, {MAX_COLUMNS} columns"
)


@dataclass(frozen=True)
class Sheet:
    """What a file holds; a plain list of SMILES has one column, without a name."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def read_upload(raw: bytes, name: str) -> Sheet:
    """Return the rows of a file.

    Args:
        raw: its bytes.
        name: tells by its ending how to read it.

    Raises:
        FileError: if it cannot be read or is beyond a limit, saying which.
    """
    if len(raw) > MAX_MB * 1_000_000:
        raise FileError(f"the file has {len(raw) / 1e6:.0f} MB; {MAX_MB} are the limit, so split it")
    refuse_stand_in(raw, "the file", FileError)
    path = PurePath(name.lower())
    if path.suffix == ".gz":
        raw, path = decompress(raw, "the file", MAX_TEXT), path.with_suffix("")
    ending = path.suffix
    if ending in COMPRESSED:
        rows = map(json.loads, _read_limited(raw, ending).splitlines())
        return make_sheet(rows, header=ending == ".parquet")
    if ending not in (*TABLES, *TEXTS, *structures.ENDINGS):
        supported = ", ".join((*TABLES, *TEXTS, *structures.ENDINGS, *COMPRESSED))
        raise FileError(f"files that end in {ending or 'nothing'} cannot be read here; take {supported}")
    kind = STRUCTURES if ending in structures.ENDINGS else TEXT
    lines = _read_limited(raw, kind, _shown(name)).splitlines()
    return make_sheet(map(json.loads, lines), header=ending not in TABLES)


def guess_query_column(columns: Sequence[str], rows: Sequence[Sequence[str]], task: Task | None = None) -> int:
    """Return the index of the query column, by its name, or else by the molecules in these rows."""
    if len(named := column_names.find_query_columns(columns, task)) == 1:
        return named[0]

    sampled = list(sample_rows(rows))
    trials = TRIALS.set(Trials(SAMPLED_TRIALS))

    def molecules(index: int) -> int:
        # A number such as 1 is no SMILES, but a name such as I or CO may be one: longer ones count more.
        words = [(row[index], row[index].split()) for row in sampled]
        smiles = sum(len(word[0]) for _, word in words if word and _is_molecule(word[0]))
        return smiles or sum(bool(reagents.find_by_name(text)) for text, _ in words)

    try:
        return max(range(len(columns)), key=molecules)
    finally:
        TRIALS.reset(trials)


def sample_rows(rows: Sequence[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Yield rows from the first on, until they have many characters."""
    chars = 0
    for row in rows:
        yield row
        chars += sum(map(len, row))
        if chars > SAMPLED_CHARS:
            return


def _is_molecule(text: str) -> bool:
    try:
        return chem.is_valid(text)
    except TooManyTrialsError:  # a text of many rings is hardly anything but a molecule
        return True


def read_stock(raw: bytes, name: str) -> bytes:
    """Return what `_encode_stock` makes of a file in a process of its own; raises FileError."""
    if len(raw) > MAX_STOCK_MB * 1_000_000:
        raise FileError(f"the file has {len(raw) / 1e6:.0f} MB; {MAX_STOCK_MB} are the limit")
    return _read_limited(raw, STOCK, _shown(name))


def _shown(name: str) -> str:
    """Return a file's name as an argument of a process: at its end is what says how to read it."""
    return "".join(filter(str.isprintable, name))[-100:]


def _read_limited(raw: bytes, kind: str, name: str = "") -> bytes:
    """Return the output of `main` for a file, in a separate process; messages begin with `name` or "the file"."""
    if not READING.acquire(timeout=BUSY_SECONDS):
        raise FileError("the server is reading other files; try again in a minute")
    try:
        process = subprocess.run(
            [sys.executable, "-m", "chemspec.jobs.uploads", kind, name],
            input=raw,
            capture_output=True,
            timeout=3 * KINDS[kind][1],
        )
    except subprocess.TimeoutExpired:
        raise FileError("the file takes too long to read; split it, or save it as CSV") from None
    finally:
        READING.release()
    if process.returncode == 3:
        message = process.stderr.decode(errors="replace")
        raise FileError(message if name else f"the file cannot be used: {message}")
    if process.returncode:
        raise FileError("the file is damaged, or takes more memory or time than a file may")
    return process.stdout


def make_sheet(lines: Iterator[list[str]], *, header: bool = False) -> Sheet:
    """Return the lines of a table; the first one holds the names of its columns, unless its query is a molecule."""
    rows = [tuple(line) for line in islice(lines, MAX_ROWS + 2)]
    names = rows[0]
    if len(names) > MAX_COLUMNS:
        raise FileError(f"the file has {len(names):,} columns; {MAX_COLUMNS} are the limit")
    if not header:
        query = names[guess_query_column(names, rows[1:50])]
        header = len(query) < 3 or not chem.is_valid(query)  # a short name may also be read as a molecule
    if header:
        del rows[0]
    else:
        names = tuple(f"column {k}" for k in range(1, len(names) + 1))
    if isinstance(parts := column_names.find_query_columns(names), column_names.QueryColumns):
        rows = [(column_names.query_of_row(row, parts), *row) for row in rows]
        names = ("reaction", *names)
    if len(rows) > MAX_ROWS:
        raise FileError(f"the file has more than {MAX_ROWS:,} rows, the limit; split it")
    if not rows:
        raise FileError("the file holds no rows")
    return Sheet(names, tuple(rows))


# --- the process of its own ------------------------------------------------------------------------


def main(kind: str, name: str) -> str:
    """Print the rows of standard input as JSON, one a line; return what is wrong with the file, if anything."""
    raw = sys.stdin.buffer.read()
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # the others reserve more than they use
    library, seconds = KINDS[kind]
    import_module(library)
    limit_process(seconds, MEMORY)
    try:
        if kind == STOCK:
            sys.stdout.buffer.write(_encode_stock(raw, name))
            return ""
        left = 2 * MAX_TEXT if kind == TEXT else MAX_TEXT  # a text is as long in JSON, but for quotes
        for row in islice(READERS[kind](raw, name), MAX_ROWS + 2):  # one more than a file may have
            line = json.dumps(row, ensure_ascii=False) + "\n"
            left -= sys.stdout.buffer.write(line.encode("utf-8", errors="backslashreplace"))
            if left < 0:
                return f"it holds more than {MAX_TEXT // 1_000_000} MB of text"
    except MemoryError:
        return "it decompresses to more memory than a file may take"
    except ValueError as error:
        return str(error)
    return ""


def _parquet_rows(raw: bytes, _: str) -> Iterator[list[str]]:
    import pyarrow
    from pyarrow import parquet

    pyarrow.set_cpu_count(1)
    try:
        file = parquet.ParquetFile(pyarrow.BufferReader(raw), pre_buffer=False)
        yield file.schema_arrow.names
        for batch in file.iter_batches(batch_size=64, use_threads=False):
            columns = [column.to_pylist() for column in batch.columns]
            yield from (["" if cell is None else str(cell) for cell in row] for row in zip(*columns, strict=True))
    except pyarrow.lib.ArrowMemoryError:
        raise MemoryError from None
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"it is no parquet file that can be read ({' '.join(str(error).split())[:200]})") from error


def _text_rows(raw: bytes, name: str) -> Iterator[list[str]]:
    path = PurePath(name.lower().removesuffix(".gz"))
    ending, text = path.suffix, decode_text(raw)
    if "\0" in text:
        raise FileError("the file holds no text; a spreadsheet must be saved as CSV first")
    head, lines = readers.look_ahead(io.StringIO(text, newline=""))
    if ending in structures.ENDINGS or (ending in TEXTS and readers.is_structure_file(head)):
        if (count := text.count("$$$$") + text.count("$RFMT") + text.count("$MFMT")) > 2 * MAX_ROWS:
            raise FileError(f"the file has about {count:,} records; {MAX_ROWS:,} are the limit, so split it")
        return structures.read_structure_rows(text, "the file")
    if ending in TABLES:
        return read_table(text, ending, "the file")
    return chain([[""]], ([query] for query in readers.read_list(lines, titled=ending in TITLED)))


# By kind what yields the rows of a file, the header first; ValueError for one that cannot be read.
READERS: dict[str, Callable[[bytes, str], Iterator[list[str]]]] = {
    ".parquet": _parquet_rows,
    spreadsheets.ENDING: lambda raw, _: spreadsheets.read_workbook_rows(raw, "it"),
    STRUCTURES: _text_rows,
    TEXT: _text_rows,
}


def _encode_stock(raw: bytes, name: str) -> bytes:
    """Return a list of building blocks, a table or one molecule a line, as the JSON of a price list."""
    with suppress(ValueError):  # `parse_stock` reports the error, or supports the format
        if name.lower().endswith(offers.ENDINGS) and (listed := offers.read_price_list(raw, name, keep=False)).offers:
            return msgspec.json.encode(listed)
    keys = [key.decode() for key in lists.parse_stock(raw, name, keep=False).tolist()]
    if len(keys) > offers.MAX_LINES:
        raise ValueError(f"it has {len(keys):,} molecules; {offers.MAX_LINES:,} are the limit of the app")
    return msgspec.json.encode(offers.PriceList(dict.fromkeys(keys, offers.Offer()), (), len(keys)))


if __name__ == "__main__":
    if problem := main(*sys.argv[1:]):
        sys.stderr.write(problem)
        sys.exit(3)
