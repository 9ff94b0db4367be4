"""A few reactions as rows of CSVs, and an index of them."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

from chemspec.precedents import Precedents
from chemspec.precedents.build import Report, build_index

# Amides from acid chlorides and anilines (the same change), an ester's hydrolysis, a bromide's coupling.
RETRO = [
    {
        "product": "CC(=O)Nc1ccccc1",
        "reactants": "CC(=O)Cl.Nc1ccccc1",
        "patent_id": "US01000001",
        "mapped_rxn": "Cl[C:1]([CH3:2])=[O:3].[NH2:4][c:5]1[cH:6][cH:7][cH:8][cH:9][cH:10]1"
        ">>[C:1]([CH3:2])(=[O:3])[NH:4][c:5]1[cH:6][cH:7][cH:8][cH:9][cH:10]1",
    },
    {
        "product": "CC(=O)Nc1ccc(C)cc1",
        "reactants": "CC(=O)Cl.Cc1ccc(N)cc1",
        "patent_id": "US01000002",
        "mapped_rxn": "",
    },
    {"product": "O=C(O)c1ccccc1", "reactants": "COC(=O)c1ccccc1", "patent_id": "", "mapped_rxn": ""},
]
FORWARD = [
    {
        "reactants_and_reagents": "CC(=O)Cl.CCN(CC)CC.ClCCl.Nc1ccccc1",
        "main_product": "CC(=O)Nc1ccccc1",
        "core_reactants": "",
        "mapped_core_rxn": "",
        "id": "US01000001|2001|7",
    },
    {
        "reactants_and_reagents": "CC(=O)Cl.Nc1ccccc1C.c1ccncc1",
        "main_product": "CC(=O)Nc1ccccc1C",
        "core_reactants": "CC(=O)Cl.Nc1ccccc1C",
        "mapped_core_rxn": "",
        "id": "US01000003|2003|8",
    },
    {
        "reactants_and_reagents": "COC(=O)c1ccc(C)cc1.[Na+].[OH-].CO",
        "main_product": "Cc1ccc(C(=O)O)cc1",
        "core_reactants": "COC(=O)c1ccc(C)cc1",
        "mapped_core_rxn": "",
        "id": "uspto|17",
    },
]


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
