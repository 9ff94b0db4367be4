"""Conditions of a step that one can use: one protocol of a record without its work-up, which fits the step's class.

1. Of the sets of reagents of the nearest precedents, work-up and drying agents (`work_up.tsv`) are left out, sets
   of two protocols and sets with an unnamed reagent are passed over, and so are sets with which the step lacks
   something (`chem.checks.flask_check`, such as a metal for a coupling) or is another reaction: an SNAr with palladium.
2. Else the likeliest set of a model is taken with which this is so; else the usual reagents of the class.

The card, the forward check and plans take the same set, so that a card shows one.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

from chemspec import chem
from chemspec.asset_files import read_asset_table
from chemspec.chem.checks.flask_check import lacks_reagents
from chemspec.chem.checks.flask_parts import matches_any
from chemspec.chem.molecules.salts import charge_of, group_molecules
from chemspec.chem.reactions.stoichiometry import classify_whole_step
from chemspec.chem.reading.names import reagents as tables
from chemspec.chem.reading.names.short_names import match_short_names
from chemspec.precedents import Found

FROM_PRECEDENTS, USUAL, PROPOSED_BY_MODEL = "from precedents", "usual for the class", "proposed by a model"
MAX_REAGENTS = 7  # components of one protocol, named
# Kinds of which a protocol has one: two mean that text mining joined two.
_RIVALS = (
    "[BH4-]", "[BH3-]C#N", "[BH-](OC(C)=O)(OC(C)=O)OC(C)=O", "[AlH4-]", "[Al;H1,H2]", "[Li+0]", "[Na+0]", "[Fe+0]",
    "[Sn+2]", "[Zn+0]", "[B;H3;+0]",
)  # fmt: skip


# A ligand, which without a metal is half of a protocol; PPh3 and the like are reagents, too.
_LIGANDS = "P(c1ccccc1-c) P(C1CCCCC1)C1CCCCC1 P(C(C)(C)C)C(C)(C)C [PX3]~*~*~*~[PX3] [PX3]~*~*~*~*~[PX3]"
_STRONG_ACIDS = "[SX4](=O)(=O)[OH] OC(=O)C(F)(F)F"
_STRONG_BASES = "[CX4]-[O-] [H-].[Na+,K+] [N-](-[CX4,Si])-[CX4,Si]"
_MITSUNOBU = "[#7]=[#7].[PX3] [P+]-C#N P=C-C#N"
_METALS = "[Pd,Ni,Cu,Co,Fe,Rh,Pt,Ir,Ru,Ag,Au]"


def usable_conditions(
    precedents: Found | None, reactants: str, product: str, proposed: Iterable[str] = ()
) -> tuple[str, str]:
    """Return the reagents of a step, SMILES joined by dots, and where they are from; empty if no set fits."""
    if recorded := recorded_conditions(precedents, reactants, product):
        return recorded, FROM_PRECEDENTS
    if fitting := fitting_set(proposed, reactants, product):
        return fitting, PROPOSED_BY_MODEL
    change = classify_whole_step(reactants, product)
    return (change.reagents, USUAL) if change and change.reagents else ("", "")


def recorded_conditions(precedents: Found | None, reactants: str, product: str) -> str:
    """Return the first conditions of precedents that fit a step, without work-up; empty if none do."""
    for conditions in precedents.conditions if precedents else ():
        reagents = without_work_up(conditions.reagents)
        if _is_one_protocol(reagents) and fits_step(reagents, reactants, product):
            return reagents
    return ""


def fitting_set(proposed: Iterable[str], reactants: str, product: str) -> str:
    """Return the first proposed set of reagents that fits the class of a step, without work-up; empty if none does."""
    sets = filter(None, map(without_work_up, proposed))
    return next((reagents for reagents in sets if fits_step(reagents, reactants, product)), "")


@lru_cache(maxsize=4000)
def fits_step(reagents: str, reactants: str, product: str) -> bool:
    """Return whether with these reagents a step lacks nothing and is a reaction of the same class."""
    flask, change = f"{reactants}.{reagents}", classify_whole_step(reactants, product)
    if change is not None and change.name.endswith("(Mitsunobu)") and not matches_any(reagents.split("."), _MITSUNOBU):
        return False
    named = classify_whole_step(flask, product)
    if change is not None and (named is None or named.name != change.name):
        return False
    return not lacks_reagents(flask, product)


@lru_cache(maxsize=10_000)
def without_work_up(reagents: str) -> str:
    """Return recorded reagents without what belongs to the work-up; all of them if nothing else would be left."""
    counted = Counter(reagents.split(".")) if reagents else Counter()
    parts = Counter({part: count if charge_of(part) else 1 for part, count in counted.items()})
    for compounds, when, unless in read_work_up():
        for compound in compounds:
            others = [*(parts - compound)]
            if (
                compound <= parts
                and others
                and (when == "-" or matches_any(others, when))
                and not (unless != "-" and matches_any(others, unless))
            ):
                parts -= compound
    if parts == counted:
        return reagents
    left = chem.canonical(".".join(parts.elements())) or reagents
    return left if left == reagents else without_work_up(left)


@lru_cache(maxsize=10_000)
def _is_one_protocol(reagents: str) -> bool:
    parts = reagents.split(".") if reagents else []
    if not parts or sum(matches_any(parts, rival) for rival in _RIVALS) > 1:
        return False
    if matches_any(parts, _LIGANDS) and not matches_any(parts, _METALS):
        return False
    if matches_any(parts, _STRONG_ACIDS) and matches_any(parts, _STRONG_BASES):
        return False
    rest, names = match_short_names(parts)
    others = [parts[index] for index in rest]
    molecules = {chem.canonical(".".join(others[ion] for ion in ions)) or "" for ions in group_molecules(others)}
    return len(names) + len(molecules) <= MAX_REAGENTS and all(map(tables.name_of, molecules))


@cache
def read_work_up() -> list[tuple[list[Counter[str]], str, str]]:
    """Return the lines of the table of work-up: compounds as counted parts, and the two cells of patterns."""
    path = Path(__file__).with_name("work_up.tsv")
    return [
        ([Counter(chem.canonical_parts(smiles) or ()) for smiles in compounds.split()], when, unless)
        for compounds, when, unless in read_asset_table(path)
    ]
