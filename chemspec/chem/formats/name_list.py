"""Look up names and CAS numbers in the list that ships, `assets/names`; it is read when the first one is asked for."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from functools import cache

from chemspec.asset_files import assets

_DROPPED = dict.fromkeys(map(ord, " \t\n\r\f\v\N{NO-BREAK SPACE}-\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{EN DASH}"))
_CAS = re.compile(r"(\d{2,7})-(\d\d)-(\d)")


@dataclass(frozen=True)
class _List:
    smiles: dict[str, str]  # of a key or a CAS number
    names: dict[str, str]  # of a canonical SMILES: how the molecule is called


def key(name: str) -> str:
    """Return what is compared of a name: case, blanks and hyphens do not count."""
    return name.casefold().translate(_DROPPED)


def find(name: str) -> tuple[str, str] | None:
    """Return SMILES and usual name of the molecule with a name or CAS number."""
    smiles = _list().smiles.get(name.strip() if is_cas(name) else key(name))
    return (smiles, _list().names[smiles]) if smiles else None


def name_of(smiles: str) -> str:
    """Return the usual name of a molecule, written as canonical SMILES; empty if it has none here."""
    return _list().names.get(smiles, "")


def is_cas(text: str) -> bool:
    """Return whether a text is a CAS number, its check digit right."""
    found = _CAS.fullmatch(text.strip())
    if found is None:
        return False
    digits = map(int, reversed(found[1] + found[2]))
    return sum(place * digit for place, digit in enumerate(digits, 1)) % 10 == int(found[3])


@cache
def _list() -> _List:
    path = assets() / "names" / "names.tsv.gz"
    text = gzip.decompress(path.read_bytes()).decode() if path.exists() else ""
    rows = [line.split("\t") for line in text.splitlines()]
    smiles: dict[str, str] = {}
    for row, keys in zip(rows, key("\0".join(row[2] for row in rows)).split("\0"), strict=False):
        smiles |= dict.fromkeys(keys.split("|"), row[0])
        smiles[row[1]] = row[0]
    smiles.pop("", None)  # molecules without a number
    return _List(smiles, {row[0]: row[2].partition(" | ")[0] for row in rows})
