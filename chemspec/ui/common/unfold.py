"""A file from standard input as rows on standard output; a program of its own, started by `uploads`.

A few bytes of Parquet or a workbook can unfold to gigabytes inside the library that reads them, and a damaged file or a
structure that RDKit does not survive can end the whole process. Here that harms nobody: this process may take so much
memory and time and no more.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module

from chemspec.system.forked import limit

Rows = Sequence[Sequence[object]]
MEMORY = 512_000_000  # bytes on top of what Python and the library take
SECONDS = 20  # of computing
STRUCTURES = ".sdf"  # stands for all files of structures
PRICES, STOCK = "prices", "stock"  # tables and lists of what can be bought
MODULES = {
    ".parquet": ("pyarrow.parquet",),
    ".xlsx": ("openpyxl", "chemspec.io.spreadsheets"),
    STRUCTURES: ("chemspec.io.structures",),
    PRICES: ("chemspec.plan.prices",),
    STOCK: ("chemspec.plan.prices",),
}
TIMES = {STRUCTURES: 6, PRICES: 15, STOCK: 15}  # `SECONDS`, where a record or a line takes some milliseconds


def main(kind: str, name: str, most_text: int, most_rows: int, most_columns: int) -> str:
    """Print the file; returns what is wrong with it, if anything."""
    raw = sys.stdin.buffer.read()
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # the others reserve more than they use
    for module in MODULES[kind]:
        import_module(module)
    limit(seconds(kind), MEMORY)  # on what comes on top of them
    left, lines = most_text, json_lines if kind == STRUCTURES else tsv
    try:
        if kind in (PRICES, STOCK):
            sys.stdout.buffer.write(bought(kind, raw, name))
            return ""
        for rows in reading(kind, raw, most_rows, most_columns):
            left -= sys.stdout.buffer.write(lines(rows))
            if left < 0:
                return f"it holds more than {most_text // 1_000_000} MB of text"
    except MemoryError:
        return "it unfolds to more than the memory that is set aside for a file"
    except ValueError as error:
        return str(error)
    return ""


def reading(kind: str, raw: bytes, most_rows: int, most_columns: int) -> Iterator[Rows]:
    """Yield the rows of a file, some at a time, the header first.

    Args:
        kind: ".parquet", ".xlsx" or `STRUCTURES`.
        raw: its bytes.
        most_rows: more are an error.
        most_columns: more are an error.

    Raises:
        ValueError: if it cannot be read, or is beyond a limit.
        MemoryError: if it unfolds to more than there is memory for.
    """
    return {".parquet": _parquet, ".xlsx": _workbook, STRUCTURES: _structures}[kind](raw, most_rows, most_columns)


def _parquet(raw: bytes, most_rows: int, most_columns: int) -> Iterator[Rows]:
    import pyarrow
    from pyarrow import parquet

    pyarrow.set_cpu_count(1)
    try:
        file = parquet.ParquetFile(pyarrow.BufferReader(raw), pre_buffer=False)
        rows, names = file.metadata.num_rows, file.schema_arrow.names
        if rows > most_rows:
            raise _LimitError(f"it has {rows:,} rows; {most_rows:,} are the limit")
        if len(names) > most_columns:
            raise _LimitError(f"it has {len(names):,} columns; {most_columns} are the limit")
        yield [names]
        for batch in file.iter_batches(batch_size=64, use_threads=False):
            columns = [column.to_pylist() for column in batch.columns]
            yield list(zip(*columns, strict=True))
    except _LimitError:
        raise
    except pyarrow.lib.ArrowMemoryError:
        raise MemoryError from None
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"it is no parquet file that can be read ({' '.join(str(error).split())[:200]})") from error


def _workbook(raw: bytes, most_rows: int, most_columns: int) -> Iterator[Rows]:
    from chemspec.io import spreadsheets

    return _limited(spreadsheets.read_workbook_rows(raw, "it"), most_rows, most_columns)


def _structures(raw: bytes, most_rows: int, most_columns: int) -> Iterator[Rows]:
    from chemspec.io import structures

    return _limited(structures.read_structure_rows(raw.decode("utf-8"), "the file"), most_rows, most_columns)


def bought(kind: str, raw: bytes, name: str) -> bytes:
    """Return the offers of a price list as JSON; of a list of stock without prices, its keys as JSON.

    Args:
        kind: `PRICES` or `STOCK`.
        raw: the bytes of the file.
        name: tells by its ending how to read it, and is in messages.

    Raises:
        ValueError: if it cannot be read.
        MemoryError: if it unfolds to more than there is memory for.
    """
    import msgspec

    from chemspec.plan import prices, stock

    if kind == PRICES:
        return msgspec.json.encode(prices.read_price_list(raw, name, keep=False))
    if priced := stock.parse_offers(raw, name, keep=False):
        return msgspec.json.encode(priced)
    return msgspec.json.encode([key.decode() for key in stock.parse_stock(raw, name, keep=False).tolist()])


def _limited(rows: Iterator[list[str]], most_rows: int, most_columns: int) -> Iterator[Rows]:
    for number, row in enumerate(rows):
        if number > most_rows:
            raise _LimitError(f"it has more than {most_rows:,} rows, the limit")
        if len(row) > most_columns:
            raise _LimitError(f"it has {len(row):,} columns; {most_columns} are the limit")
        yield [row]


class _LimitError(ValueError):
    """A file is too large."""


def tsv(rows: Rows) -> bytes:
    """Return rows as lines of a TSV."""
    buffer = io.StringIO()
    csv.writer(buffer, delimiter="\t", lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode("utf-8", errors="backslashreplace")


def json_lines(rows: Rows) -> bytes:
    """Return rows as JSON, one a line: a CSV's cells may not be as long as a record that cannot be read."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def seconds(kind: str) -> int:
    """Return how long a file may compute."""
    return SECONDS * TIMES.get(kind, 1)


if __name__ == "__main__":
    wrong = main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
    if wrong:
        sys.stderr.write(wrong)
        sys.exit(3)
