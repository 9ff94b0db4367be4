"""Short names of solvents, bases, catalysts and reagents, as chemists write them over a reaction arrow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache

from chemspec import chem
from chemspec.chem.formats import reagents
from chemspec.ui.common.web_files import web_file

_LOWER = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def set_apart(parts: Sequence[str], keep: Collection[str] = ()) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Which parts of a flask to draw, and short names of the others.

    Args:
        parts: canonical SMILES, each without dots.
        keep: parts to draw though they have a name.

    Returns:
        places of the parts to draw (all, if every one has a name); names, salts first.
    """
    left = Counter(part for part in parts if part not in keep)
    names = []
    for name, needed in _book():
        if all(left[part] >= count for part, count in needed.items()):
            names.append(name)
            for part in needed:  # a second helping of the same is not written twice
                left[part] -= needed[part] * (left[part] // needed[part])
    drawn = []
    for place, part in enumerate(parts):
        if part in keep or left[part] > 0:
            drawn.append(place)
            left[part] -= 1
    return (tuple(drawn), tuple(names)) if drawn else (tuple(range(len(parts))), ())


@cache
def _book() -> tuple[tuple[str, Counter[str]], ...]:
    """Names as they are printed with their canonical parts; those of most parts first."""
    table = {}
    for line in web_file(__file__, "txt").splitlines():
        name, colon, smiles = line.partition(": ")
        if colon:
            table[name] = smiles
        elif not line.startswith("#"):
            table |= {name: entry[0] for name in line.split() if (entry := reagents.find(name))}
    pairs = [(printed(name), Counter(chem.canonical_parts(smiles) or ("?",))) for name, smiles in table.items()]
    return tuple(sorted(pairs, key=lambda pair: -pair[1].total()))


def printed(name: str) -> str:
    """A name with its numbers below the line: K₂CO₃."""
    return re.sub(r"(?<=[A-Za-z)])\d+", lambda number: number[0].translate(_LOWER), name)
