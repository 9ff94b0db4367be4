"""Convert a range of rows of a reaction CSV to a file of aligned text pairs; for worker processes, without torch."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from chemspec.data.reaction_records import is_reaction_file, read_reaction_file
from chemspec.data.reactions import product_key, smiles_variants
from chemspec.data.settings import DataSettings
from chemspec.system.stand_ins import refuse_stand_in
from chemspec.tasks import TASKS, Row
from chemspec.tokenizer import TokenError, split_smiles

Job = tuple[Path, int, int, Path]  # file, first row, number of rows, shard


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a CSV, gzipped or plain, as mappings from column name to text, or of a file of ORD or Lowe.

    Raises ValueError naming the file, if it cannot be read completely.
    """
    refuse_stand_in(path, path)
    if is_reaction_file(path):
        yield from read_reaction_file(path)
        return
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as raw:
        try:
            # utf-8-sig, because spreadsheets write a byte order mark.
            with io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
                yield from csv.DictReader(text)
        except (UnicodeDecodeError, csv.Error, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is damaged or not a CSV: {error}") from error


def claim_shards(folder: Path, made_from: dict[str, Any]) -> None:
    """Create the folder of shards, and delete existing ones unless they are from the same files and settings."""
    stamp, expected = folder / "made-from.json", json.dumps(made_from)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != expected:
        for old in folder.glob("*.*"):
            old.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        stamp.write_text(expected, encoding="utf-8")
    for left in folder.glob("*.partial*"):
        left.unlink()


def check_columns(path: Path, settings: DataSettings) -> None:
    """Raise if a file lacks a column that the settings need."""
    first = next(read_rows(path), None)
    if first is None:
        raise ValueError(f"{path} has no rows")
    flags = () if path.name in settings.clean else settings.leave_out
    task = TASKS.lookup(settings.task)
    needed = (*(task.columns if settings.guess_maps else task.mapped), *flags, *settings.only)
    missing = [name for name in needed if name not in first]
    if missing:
        names = ", ".join(str(name) for name in first)
        raise ValueError(
            f"{path} has no column {', '.join(missing)}, needed for {settings.task} data "
            f"(or named by the recipe's `leave_out` or `only`); it has {names}"
        )


def is_used(row: Row, settings: DataSettings) -> bool:
    """Return whether a row is used, by its columns."""
    left_out = any(row.get(column) == "1" for column in settings.leave_out)
    return not left_out and all(row.get(column) == "1" for column in settings.only)


def write_shard(job: Job, settings: DataSettings, apart: frozenset[str] = frozenset()) -> int:
    """Write the pairs of some rows, one per line, separated by tabs; returns the number of rows."""
    file, start, length, target = job
    lines = []
    for number, row in enumerate(islice(read_rows(file), start, start + length), start):
        if not is_used(row, settings):
            continue
        if settings.ignore_maps:
            row = {column: value for column, value in row.items() if not column.startswith("mapped_")}
        # One generator per row: the result depends neither on shards nor on workers.
        rng = Random(f"{settings.seed}/{file.name}/{number}")
        pairs = smiles_variants(
            row,
            settings.task,
            count=settings.variants_of.get(file.name, settings.variants),
            flat_share=settings.flat_share_of.get(file.name, settings.flat_share),
            rng=rng,
            guess=settings.guess_maps,
        )
        if apart and pairs and product_key(settings.task, *pairs[0]) in apart:
            continue
        lines += ["\t".join(pair) + "\n" for pair in pairs if _fits_limit(*pair, settings.max_tokens)]
    partial = target.with_suffix(".partial")
    partial.write_text("".join(lines), encoding="utf-8")
    partial.replace(target)
    return length


def _fits_limit(source: str, answer: str, limit: int) -> bool:
    try:
        return 0 < len(split_smiles(source)) <= limit and 0 < len(split_smiles(answer)) <= limit
    except TokenError:
        return False
