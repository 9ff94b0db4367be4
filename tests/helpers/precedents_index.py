"""A few reactions as rows of CSVs, and an index of them."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

from chemspec.precedents import Precedents
from chemspec.precedents.build import Report, build_index
from helpers.case_tables import table

# Amides from acid chlorides and anilines (the same change), an ester's hydrolysis, a bromide's coupling.
RETRO, FORWARD = table("precedents/retro_rows"), table("precedents/forward_rows")


def write(path: Path, rows: Sequence[Mapping[str, str]]) -> Path:
    """Write rows as a gzipped CSV."""
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def files(folder: Path) -> list[Path]:
    """The tables, as the data come."""
    return [write(folder / "retro_train.csv.gz", RETRO), write(folder / "forward_train.csv.gz", FORWARD)]


def make(folder: Path) -> tuple[Precedents, Report]:
    """An index of all of them, and what was told of it."""
    told = build_index(files(folder), folder / "index.safetensors", workers=1)
    return Precedents(folder / "index.safetensors"), told
