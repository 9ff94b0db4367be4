"""What else belongs into a flask, as a text: each reagent once, without stereochemistry, in alphabetical order.

So two lists of the same reagents are the same text, whatever a patent calls an equivalent, and a model has one right
way to write them. Stereochemistry is left out as USPTO-MIT leaves it out: who knows that a ligand is wanted will ask
which enantiomer.
"""

from __future__ import annotations

from functools import lru_cache

import chemspec.chem as chem
from chemspec.chem.salts import charge


def normal(reagents: str) -> str | None:
    """Return the canonical text of a set of reagents; None where one of them cannot be read, or there is none."""
    parts = {_flat(part) for part in reagents.split(".") if part}
    return None if None in parts or not parts else ".".join(sorted(filter(None, parts)))


def beside(flask: str, core: str) -> str:
    """Return what is in a flask beside its core reactants, in normal form; empty if nothing is or it cannot be read."""
    wanted = {_flat(part) for part in core.split(".")}
    return normal(".".join(part for part in flask.split(".") if _flat(part) not in wanted)) or ""


@lru_cache(maxsize=100_000)
def _flat(part: str) -> str | None:
    """Return a molecule's canonical SMILES without stereochemistry; the same few reagents come up again and again."""
    return chem.drop_stereo(part)


def balanced(reagents: str) -> str:
    """Return a set of reagents with its ions as often as their charges need: `[K+].O=C([O-])[O-]` lacks a potassium.

    What cannot be balanced by ions of the set stays as it is.
    """
    parts = reagents.split(".") if reagents else []
    charges = {part: charge(part) for part in parts}
    while excess := sum(map(charges.__getitem__, parts)):
        fitting = [part for part in charges if charges[part] * excess < 0 and abs(charges[part]) <= abs(excess)]
        if not fitting:
            return reagents
        parts.insert(parts.index(fitting[0]), fitting[0])
    return ".".join(parts)
