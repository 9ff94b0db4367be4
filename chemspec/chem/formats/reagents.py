"""Look up the SMILES of common reagents, solvents, drugs and building blocks, for those who type what they mean.

The tables, made by hand, are `reagents.tsv` and `names.tsv`; some thousand names more, and CAS numbers, stand in
`name_list`, and systematic names are read by `nomenclature`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import chemspec.chem.formats.name_list as name_list
import chemspec.chem.formats.nomenclature as nomenclature
from chemspec.chem.query import canonical

TABLE = Path(__file__).with_name("reagents.tsv")
NAMES = Path(__file__).with_name("names.tsv")  # of drugs and building blocks
_DASHES = "-\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{EN DASH}"


def find(name: str) -> tuple[str, str] | None:
    """Return SMILES and full name of a molecule; None if it is in no table and has no simple systematic name."""
    if (known := _names().get(_key(name)) or name_list.find(name)) is not None:
        return known
    smiles = nomenclature.read(name)
    return (smiles, name.strip()) if smiles else None


def by_hand(name: str) -> str | None:
    """Return the SMILES that the tables made by hand have for a name."""
    return _names().get(_key(name), (None,))[0]


def name_of(smiles: str) -> str:
    """Return how a molecule, written as canonical SMILES, is called in the tables or the list; empty if it is not."""
    return _written().get(smiles) or name_list.name_of(smiles)


@cache
def _written() -> dict[str, str]:
    return {canonical(smiles) or smiles: full for smiles, full in _names().values()}


@cache
def _names() -> dict[str, tuple[str, str]]:
    table: dict[str, tuple[str, str]] = {}
    for line in (text for file in (NAMES, TABLE) for text in file.read_text(encoding="utf-8").splitlines()):
        if not line.startswith("#"):
            smiles, names, *_ = line.split("\t")
            full, *others = names.split(" | ")
            table |= {_key(name): (smiles, full) for name in (full, *others)}
    return table


def _key(name: str) -> str:
    bare = "".join(char for char in name if not (char.isspace() or char in _DASHES))
    # Hf is hafnium, HF is not.
    return bare if re.fullmatch("[A-Z][a-z]", bare) else bare.casefold()
