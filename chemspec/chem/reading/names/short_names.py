"""Short names of solvents, bases, catalysts and reagents for reaction arrows."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path

import chemspec.chem as chem
import chemspec.chem.reading.names.reagents as reagents

TABLE = Path(__file__).with_name("short_names.txt")
_LOWER, _LEVEL = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"), str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def split_drawn_and_named(parts: Sequence[str], keep: Collection[str] = ()) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return indices of the components to draw, and the names of the others, in order.

    Those in `keep` are drawn even if they have a name, and all are if every one has.
    """
    drawn, index_of_name = match_short_names(parts, keep)
    in_order = sorted(index_of_name, key=index_of_name.__getitem__)
    return (drawn, tuple(in_order)) if drawn else (tuple(range(len(parts))), ())


def match_short_names(parts: Sequence[str], keep: Collection[str] = ()) -> tuple[tuple[int, ...], dict[str, int]]:
    """Return indices of components without a short name or in `keep`, and names of the others with their first index.

    Names of several components are matched first.
    """
    remaining = Counter(part for part in parts if part not in keep)
    index_of_name: dict[str, int] = {}
    for name, needed in _candidates(remaining):
        if all(remaining[part] >= count for part, count in needed.items()):
            index_of_name.setdefault(name, min(map(parts.index, needed)))
            times = min(remaining[part] // count for part, count in needed.items())
            for part, count in needed.items():  # a repeated reagent is named once
                remaining[part] -= times * count
    unnamed = []
    for index, part in enumerate(parts):
        if part in keep or remaining[part] > 0:
            unnamed.append(index)
            remaining[part] -= 1
    return tuple(unnamed), index_of_name


@cache
def read_short_names() -> tuple[tuple[str, str], ...]:
    """Return the names in short_names.txt with their SMILES, if given; a name may have several."""
    entries: list[tuple[str, str]] = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, colon, smiles = line.partition(": ")
            entries += [(name, smiles)] if colon else [(name, "") for name in line.split()]
    return tuple(entries)


@cache
def name_table() -> tuple[tuple[str, Counter[str]], ...]:
    """Return printed names with their canonical components, those with most components first."""
    table = [(name, smiles or (reagents.find_by_name(name) or ("?",))[0]) for name, smiles in read_short_names()]
    pairs = [(with_subscripts(name), Counter(chem.canonical_parts(smiles) or ("?",))) for name, smiles in table]
    return tuple(sorted(pairs, key=lambda pair: -pair[1].total()))


def _candidates(parts: Collection[str]) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the entries of the table of names with any of these components, in its order."""
    numbers = {number for part in parts for number in _numbers_of_entries().get(part, ())}
    yield from map(name_table().__getitem__, sorted(numbers))


@cache
def _numbers_of_entries() -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for number, (_, needed) in enumerate(name_table()):
        for part in needed:
            numbers.setdefault(part, []).append(number)
    return numbers


def with_subscripts(name: str) -> str:
    """Return a name with subscript numbers: K₂CO₃."""
    return re.sub(r"(?<=[A-Za-z)])\d+", lambda number: number[0].translate(_LOWER), name)


def without_subscripts(names: str) -> str:
    """Return names with plain numbers, for files and text boxes: K2CO3."""
    return names.translate(_LEVEL)
