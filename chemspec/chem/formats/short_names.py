"""Short names of solvents, bases, catalysts and reagents, as chemists write them over a reaction arrow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

import chemspec.chem as chem
import chemspec.chem.formats.reagents as reagents

TABLE = Path(__file__).with_name("short_names.txt")
_LOWER = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def set_apart(parts: Sequence[str], keep: Collection[str] = ()) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return which parts of a flask to draw, and short names of the others.

    Args:
        parts: canonical SMILES, each without dots.
        keep: parts to draw though they have a name.

    Returns:
        places of the parts to draw (all, if every one has a name); names, in the order of the flask.
    """
    drawn, found = recognise(parts, keep)
    in_order = sorted(found, key=found.__getitem__)
    return (drawn, tuple(in_order)) if drawn else (tuple(range(len(parts))), ())


def recognise(parts: Sequence[str], keep: Collection[str] = ()) -> tuple[tuple[int, ...], dict[str, int]]:
    """Return the places of parts without a short name, or in `keep`; names of the others, each with its first place.

    The names of what has most parts come first.
    """
    left = Counter(part for part in parts if part not in keep)
    found: dict[str, int] = {}
    for name, needed in _book():
        if all(left[part] >= count for part, count in needed.items()):
            found.setdefault(name, min(map(parts.index, needed)))
            times = min(left[part] // count for part, count in needed.items())
            for part, count in needed.items():  # a second helping of the same is not written twice
                left[part] -= times * count
    drawn = []
    for place, part in enumerate(parts):
        if part in keep or left[part] > 0:
            drawn.append(place)
            left[part] -= 1
    return tuple(drawn), found


@cache
def names() -> tuple[tuple[str, str], ...]:
    """Return the names in short_names.txt, with their SMILES where it has one; a name may have several."""
    found: list[tuple[str, str]] = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, colon, smiles = line.partition(": ")
            found += [(name, smiles)] if colon else [(name, "") for name in line.split()]
    return tuple(found)


@cache
def _book() -> tuple[tuple[str, Counter[str]], ...]:
    """Return names as they are printed with their canonical parts; those of most parts first."""
    table = [(name, smiles or (reagents.find(name) or ("?",))[0]) for name, smiles in names()]
    pairs = [(printed(name), Counter(chem.canonical_parts(smiles) or ("?",))) for name, smiles in table]
    return tuple(sorted(pairs, key=lambda pair: -pair[1].total()))


def printed(name: str) -> str:
    """Return a name with its numbers below the line: K₂CO₃."""
    return re.sub(r"(?<=[A-Za-z)])\d+", lambda number: number[0].translate(_LOWER), name)
