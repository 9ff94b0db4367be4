"""Output of a job: a folder of Parquet files, one per shard, each written atomically."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow
from pyarrow import parquet

from chemspec.cluster.dispatch import Piece
from chemspec.io.readers import ENDINGS, FileError, stream_queries
from chemspec.io.writers import check_same_settings, parquet_fields
from chemspec.settings import Task
from chemspec.system.files import open_atomic, write_text_atomic
from chemspec.system.locks import FOLDER_LOCK, LockedError, lock_folder
from chemspec.types import Tell, ignore

MANIFEST, ROWS = "manifest.json", "rows"
MAX_ROWS, MIN_ROWS = 1000, 32  # rows of a shard: half a minute on a core, and a batch
SHARDS_EACH = 4  # shards of each engine, so that all work to the end though some rows take longer
SHARDS_PER_FOLDER = 1000  # shards per folder: listing a hundred thousand files is slow
SCHEMA = pyarrow.schema({"row": pyarrow.int64(), **parquet_fields()})


def stream_source(source: Path, column: str = "", task: Task | None = None, note: Tell = ignore) -> Iterator[str]:
    """Yield the queries of a file, or of all files of a folder in the order of their names.

    Column, task and note are those of `io.readers.stream_queries`; tables may have different columns. FileError if
    there is no file, or one is unreadable.
    """
    if not source.is_dir():
        yield from stream_queries(source, column, task, note)
        return
    files = sorted(path for path in source.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
    if not files:
        raise FileError(f"{source} has no file of queries ({' '.join(ENDINGS)})")
    for file in files:
        yield from stream_queries(file, column, task, note)


def stored_shard_rows(folder: Path) -> int:
    """Return the rows of a shard of a folder that a job has begun; 0 if there is none, or its manifest is damaged."""
    try:
        rows = json.loads((folder / MANIFEST).read_text("utf-8"))["shard_rows"]
    except (OSError, ValueError, LookupError, TypeError):
        return 0
    return rows if isinstance(rows, int) and rows > 0 else 0


def fit_shards(queries: Iterable[str], engines: int) -> tuple[int, int | None, Iterator[str]]:
    """Choose the rows of a shard: at most `MAX_ROWS`, and fewer where not every engine would get `SHARDS_EACH`.

    Returns them, the number of queries (None: more than are read for this), and all queries.
    """
    remaining = iter(queries)
    enough = engines * SHARDS_EACH * MAX_ROWS
    first = list(islice(remaining, enough))
    rows = -(-len(first) // (engines * SHARDS_EACH))
    total = len(first) if len(first) < enough else None
    return max(MIN_ROWS, min(MAX_ROWS, rows)), total, chain(first, remaining)


def cut_into_shards(queries: Iterable[str], size: int) -> Iterator[Piece]:
    """Cut rows into shards of `size`."""
    remaining = iter(queries)
    number = 0
    while part := list(islice(remaining, size)):
        yield Piece(number, number * size, part)
        number += 1


class ShardFolder:
    """A folder of shards written by one process; a context manager."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        """Create a folder, or resume one with the same manifest.

        The manifest is everything that the content depends on, except the rows, which are compared shard by shard.
        FileError if it differs, the folder has other content, or another process writes to it.
        """
        self.folder = folder
        self._parts: dict[int, list[tuple[Piece, pyarrow.Table]]] = {}
        file = folder / MANIFEST
        folder.mkdir(parents=True, exist_ok=True)
        others = [path.name for path in folder.iterdir() if path.name != FOLDER_LOCK and path.suffix != ".partial"]
        if others and not file.exists():
            raise FileError(f"{folder} contains {others[0]}, but no {MANIFEST}; choose another name")
        self._lock = ExitStack()
        try:
            self._lock.enter_context(lock_folder(folder))
            if not file.exists():
                write_text_atomic(file, json.dumps(manifest, sort_keys=True, indent=1))
            check_same_settings(json.loads(file.read_text("utf-8")), manifest, folder)
        except ValueError as error:
            self._lock.close()
            if isinstance(error, FileError | LockedError):
                raise FileError(str(error)) from error
            raise FileError(f"{file} is damaged: {error}") from error

    def __enter__(self) -> ShardFolder:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._lock.close()

    def path(self, shard: int) -> Path:
        """Return the path of a shard."""
        return self.folder / ROWS / f"{shard // SHARDS_PER_FOLDER:04}" / f"{shard:07}.parquet"

    def counts(self, piece: Piece) -> Counter[str] | None:
        """Return the number of rows of a shard by status; None if missing. FileError if it is of other rows."""
        path = self.path(piece.shard)
        try:
            rows = parquet.read_table(path, columns=["query", "status"], use_threads=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            path.unlink()  # damaged from outside, since shards are written atomically
            return None
        if rows["query"].to_pylist() != list(piece.queries):
            raise FileError(f"{path} has predictions for other rows; the input has changed, choose another name")
        return Counter(rows["status"].to_pylist())

    def add(self, piece: Piece, table: pyarrow.Table, size: int) -> Counter[str] | None:
        """Add the predictions of a piece; if its shard has `size` rows now, write it and return its counts.

        OSError if it cannot be written.
        """
        parts = self._parts.setdefault(piece.shard, [])
        parts.append((piece, table))
        if sum(len(part.queries) for part, _ in parts) < size:
            return None
        del self._parts[piece.shard]
        parts.sort(key=lambda part: part[0].first)
        assert all((len(table), table["row"][0].as_py()) == (len(part.queries), part.first) for part, table in parts)
        shard = pyarrow.concat_tables([part for _, part in parts])
        path = self.path(piece.shard)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_atomic(path) as file:
            parquet.write_table(shard, file, compression="zstd")
        return Counter(shard["status"].to_pylist())

    def finish(self, shards: int) -> None:
        """Verify the number of shards; FileError if there are more than the input has now."""
        existing = sum(1 for _ in (self.folder / ROWS).rglob("*.parquet"))
        if existing != shards:
            raise FileError(f"{self.folder} has {existing} shards, the input has {shards}; it belongs to another input")
