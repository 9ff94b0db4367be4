"""Read an uploaded file in a process of its own, with limits of memory and time; a program, started by `uploads`.

A few bytes of Parquet or a workbook can decompress to gigabytes inside the library that reads them, and a damaged file
or a structure that crashes RDKit can end the whole process. Here only this process ends.
"""

import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module

from chemspec.system.forked import limit_process

MEMORY = 512_000_000  # bytes on top of what Python and the library take
MAX_TEXT = 20_000_000  # bytes of a file once it is unpacked
MAX_ROWS = 10_000
MAX_COLUMNS = 50
STRUCTURES = ".sdf"  # stands for all files of structures
PRICES, STOCK = "prices", "stock"  # price lists, and lists of building blocks with or without prices
# By kind of file: modules to import before the limits hold, and seconds of computing.
KINDS: dict[str, tuple[tuple[str, ...], int]] = {
    ".parquet": (("pyarrow.parquet",), 20),
    ".xlsx": (("openpyxl", "chemspec.io.spreadsheets"), 20),
    STRUCTURES: (("chemspec.io.structures",), 120),
    PRICES: (("chemspec.plan.prices",), 300),
    STOCK: (("chemspec.plan.prices",), 300),
}


def main(kind: str, name: str) -> str:
    """Print the rows of standard input as JSON, one a line; return what is wrong with the file, if anything."""
    raw = sys.stdin.buffer.read()
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # the others reserve more than they use
    modules, seconds = KINDS[kind]
    for module in modules:
        import_module(module)
    limit_process(seconds, MEMORY)
    try:
        if kind in (PRICES, STOCK):
            sys.stdout.buffer.write(read_stock(kind, raw, name))
            return ""
        left = MAX_TEXT
        for row in read_rows(kind, raw):
            line = json.dumps(row, ensure_ascii=False) + "\n"
            left -= sys.stdout.buffer.write(line.encode("utf-8", errors="backslashreplace"))
            if left < 0:
                return f"it holds more than {MAX_TEXT // 1_000_000} MB of text"
    except MemoryError:
        return "it decompresses to more memory than a file may take"
    except ValueError as error:
        return str(error)
    return ""


def read_rows(kind: str, raw: bytes) -> Iterator[list[str]]:
    """Yield the rows of a file, the header first.

    Raises:
        ValueError: if it cannot be read, or is beyond a limit.
        MemoryError: if it decompresses to more than there is memory for.
    """
    from chemspec.io import spreadsheets, structures

    if kind == ".parquet":
        rows = _parquet_rows(raw)
    elif kind == ".xlsx":
        rows = spreadsheets.read_workbook_rows(raw, "it")
    else:
        rows = structures.read_structure_rows(raw.decode("utf-8"), "the file")
    for number, row in enumerate(rows):
        if number > MAX_ROWS:
            raise ValueError(f"it has more than {MAX_ROWS:,} rows, the limit")
        if len(row) > MAX_COLUMNS:
            raise ValueError(f"it has {len(row):,} columns; {MAX_COLUMNS} are the limit")
        yield row


def _parquet_rows(raw: bytes) -> Iterator[list[str]]:
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


def read_stock(kind: str, raw: bytes, name: str) -> bytes:
    """Return the offers of a price list as JSON; of a list of building blocks without prices, its InChIKeys as JSON.

    Raises:
        ValueError: if it cannot be read.
        MemoryError: if it decompresses to more than there is memory for.
    """
    import msgspec

    from chemspec.plan import prices, stock

    if kind == PRICES:
        return msgspec.json.encode(prices.read_price_list(raw, name, keep=False))
    if offers := stock.parse_offers(raw, name, keep=False):
        return msgspec.json.encode(offers)
    return msgspec.json.encode([key.decode() for key in stock.parse_stock(raw, name, keep=False).tolist()])


if __name__ == "__main__":
    if problem := main(*sys.argv[1:]):
        sys.stderr.write(problem)
        sys.exit(3)
