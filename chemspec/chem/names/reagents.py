"""Look up the SMILES of common reagents, solvents, drugs and building blocks by name, in hand-written tables."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import chemspec.chem.names.name_list as name_list
import chemspec.chem.names.nomenclature as nomenclature
from chemspec.chem.query import canonical

TABLE = Path(__file__).with_name("reagents.tsv")
NAMES = Path(__file__).with_name("names.tsv")  # drugs and building blocks
_DASHES = "-\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{EN DASH}"


def find_by_name(name: str) -> tuple[str, str] | None:
    """Return SMILES and full name of a molecule; None if the name is neither listed nor simple and systematic."""
    if (entry := _load_tables().get(_normalise(name)) or name_list.find_in_list(name)) is not None:
        return entry
    smiles = nomenclature.read(name)
    return (smiles, name.strip()) if smiles else None


def find_in_tables(name: str) -> str | None:
    """Return the SMILES of a name in the hand-written tables."""
    return _load_tables().get(_normalise(name), (None,))[0]


def name_of(smiles: str) -> str:
    """Return the name of a molecule by canonical SMILES from tables or list; empty if it has none."""
    return _names_by_smiles().get(smiles) or name_list.name_in_list(smiles)


@cache
def _names_by_smiles() -> dict[str, str]:
    return {canonical(smiles) or smiles: full for smiles, full in _load_tables().values()}


@cache
def _load_tables() -> dict[str, tuple[str, str]]:
    table: dict[str, tuple[str, str]] = {}
    for line in (text for file in (NAMES, TABLE) for text in file.read_text(encoding="utf-8").splitlines()):
        if not line.startswith("#"):
            smiles, names, *_ = line.split("\t")
            full, *others = names.split(" | ")
            table |= {_normalise(name): (smiles, full) for name in (full, *others)}
    return table


def _normalise(name: str) -> str:
    bare = "".join(char for char in name if not (char.isspace() or char in _DASHES))
    # Hf is hafnium, HF is not.
    return bare if re.fullmatch("[A-Z][a-z]", bare) else bare.casefold()
