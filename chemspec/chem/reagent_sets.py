"""Normal form of reagent sets, so that equal ones have equal texts: each once, without stereochemistry, in order."""

from __future__ import annotations

from functools import lru_cache

import chemspec.chem as chem
from chemspec.chem.salts import charge_of


def normal_form(reagents: str) -> str | None:
    """Return the normal form of a set of reagents; None if one is invalid or the set is empty."""
    parts = {_without_stereo(part) for part in reagents.split(".") if part}
    return None if None in parts or not parts else ".".join(sorted(filter(None, parts)))


def other_reagents(flask: str, core: str) -> str:
    """Return the reagents of a mixture except core reactants, in normal form; empty if none, or some are invalid."""
    core_parts = {_without_stereo(part) for part in core.split(".")}
    return normal_form(".".join(part for part in flask.split(".") if _without_stereo(part) not in core_parts)) or ""


_without_stereo = lru_cache(maxsize=100_000)(chem.drop_stereo)  # reagents recur


def balance_charges(reagents: str) -> str:
    """Repeat ions of a reagent set until charges balance, if they can: `[K+].O=C([O-])[O-]` gets a second potassium."""
    parts = reagents.split(".") if reagents else []
    charges = {part: charge_of(part) for part in parts}
    while excess := sum(map(charges.__getitem__, parts)):
        fitting = [part for part in charges if charges[part] * excess < 0 and abs(charges[part]) <= abs(excess)]
        if not fitting:
            return reagents
        parts.insert(parts.index(fitting[0]), fitting[0])
    return ".".join(parts)
