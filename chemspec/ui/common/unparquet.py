"""A parquet file from standard input as CSV on standard output; a program of its own, started by `uploads`.

A few bytes of parquet can unfold to gigabytes inside the library that reads them, and a damaged file can end the whole
process. Here that harms nobody: this process may take so much memory and time and no more.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from pathlib import Path

MEMORY = 512_000_000  # bytes on top of what Python and pyarrow take
SECONDS = 20  # of computing


def main(most_text: int, most_rows: int, most_columns: int) -> str:
    """Print the file; returns what is wrong with it, if anything."""
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # the others reserve more than they use
    import pyarrow
    from pyarrow import parquet

    pyarrow.set_cpu_count(1)
    _limit()
    left = most_text
    try:
        source = pyarrow.BufferReader(sys.stdin.buffer.read())
        file = parquet.ParquetFile(source, pre_buffer=False)
        rows, names = file.metadata.num_rows, file.schema_arrow.names
        if rows > most_rows:
            return f"it has {rows:,} rows; {most_rows:,} are the limit"
        if len(names) > most_columns:
            return f"it has {len(names):,} columns; {most_columns} are the limit"
        left -= _print([names])
        for batch in file.iter_batches(batch_size=64, use_threads=False):
            columns = [column.to_pylist() for column in batch.columns]
            left -= _print(list(zip(*columns, strict=True)))
            if left < 0:
                return f"it holds more than {most_text // 1_000_000} MB of text"
    except (MemoryError, pyarrow.lib.ArrowMemoryError):
        return "it unfolds to more than the memory that is set aside for a file"
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        return f"it is no parquet file that can be read ({' '.join(str(error).split())[:200]})"
    return ""


def _print(rows: list[object]) -> int:
    """Write rows; returns how many bytes they are."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)  # type: ignore[arg-type]
    return sys.stdout.buffer.write(buffer.getvalue().encode("utf-8", errors="backslashreplace"))


def _limit() -> None:
    try:
        import resource

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return  # not Linux: the limits on rows and text stand, the one on memory does not
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


if __name__ == "__main__":
    wrong = main(*map(int, sys.argv[1:]))
    if wrong:
        sys.stderr.write(wrong)
        sys.exit(3)
