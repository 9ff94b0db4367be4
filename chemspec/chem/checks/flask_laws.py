"""Laws that the product of a flask must keep: electrons, oxygens of a double bond, and where reagents add to it.

A law looks at the atom map of a step that is there anyway. What contradicts it is a sentence; false alarms among
recorded reactions are counted by `tests/programs/flask_check.py`.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from chemspec.asset_files import read_asset_table
from chemspec.chem.checks.flask_parts import fits, matches_any
from chemspec.chem.checks.flask_sites import opened_double_bonds, site_conflicts
from chemspec.chem.molecules.parsing import fixed_pattern, shared_mol
from chemspec.chem.reactions.step_class import StepClass

FOLDER = Path(__file__).parent
# Electronegativities; nitrogen above chlorine, since the chlorine of N-chloro compounds is what oxidises.
_ATTRACTION = {9: 4.0, 8: 3.5, 7: 3.3, 17: 3.1, 35: 2.9, 53: 2.7, 16: 2.6, 34: 2.56, 6: 2.55, 1: 2.2, 15: 2.19}
_METAL = 1.9  # all others: boron, silicon and metals
_HYDROGEN = 1
REDUCTANT = "a reductant"
OXIDANT = "an oxidant"
_ADDITIONS = ("Dihydroxylation", "Epoxidation")
# Words of classes without a balance: halogens come in many forms, as ions too, formyl groups from many carbons, and
# organometallic reagents react twice.
_OPEN = ("alogenation", "Addition of a halogen", "ormylation", "organometallic")


def missing_electrons(step: StepClass, left: Any, right: Any) -> str:
    """Return what a step needs to balance its electrons, a reductant or an oxidant; empty where it needs neither.

    The atoms that stay are compared before and after, with hydrogen; a group that leaves takes its electrons along.
    """
    if not step.after or min(step.origin) < 0 or any(word in step.name for word in _OPEN):
        return ""
    stays = set(step.origin)
    gone = [left.GetAtomWithIdx(atom) for atom in step.before if atom not in stays]
    if any((atom.GetSymbol() in ("N", "S") and atom.GetFormalCharge()) or atom.GetSymbol() == "B" for atom in gone):
        return ""  # dinitrogen, nitro groups, sulfonium salts and boron leave with any number of electrons
    change = sum(
        _oxidation(right.GetAtomWithIdx(atom)) - _oxidation(left.GetAtomWithIdx(step.origin[atom]))
        for atom in step.after
    )
    lost_carbon = any(atom.GetSymbol() == "C" and _oxidation(atom) >= 2 for atom in gone)  # carbon dioxide
    if change <= -1.9 and not lost_carbon:
        return REDUCTANT
    # Rings become aromatic by air, and ring syntheses have many maps.
    is_ring = str(step.key[0]).startswith(("ring", "annulation", "deuteration")) or any(
        right.GetAtomWithIdx(atom).GetIsAromatic() and not left.GetAtomWithIdx(step.origin[atom]).GetIsAromatic()
        for atom in step.after
    )
    return OXIDANT if change >= 1.9 and not is_ring else ""


def _oxidation(atom: Any) -> float:
    attraction = _ATTRACTION.get(atom.GetAtomicNum(), _METAL)
    state = atom.GetFormalCharge() + atom.GetTotalNumHs() * _sign(_ATTRACTION[_HYDROGEN], attraction)
    for bond in atom.GetBonds():
        other = _ATTRACTION.get(bond.GetOtherAtom(atom).GetAtomicNum(), _METAL)
        state += bond.GetBondTypeAsDouble() * _sign(other, attraction)
    return float(state)


def _sign(other: float, attraction: float) -> int:
    return (other > attraction) - (other < attraction)


def law_conflicts(step: StepClass, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    """Yield what is against a law: too many oxygens for a double bond, and sites that the reaction does not choose."""
    yield from site_conflicts(step, left, right, whole)
    opened = list(opened_double_bonds(step, left, right))
    oxygens = [pair for pair in step.made if {right.GetAtomWithIdx(a).GetSymbol() for a in pair} == {"C", "O"}]
    if any(name in _ADDITIONS for name in step.name.split(" + ")) and len(oxygens) > 2 * max(1, len(opened)):
        yield f"a double bond takes up two C-O bonds, and this product has {len(oxygens)} new ones"


def unusual_class(step: StepClass, whole: Sequence[str]) -> Iterator[str]:
    """Yield what well-known reagents of a flask usually do together, where the answer is of another class."""
    for patterns, unless, classes, sentence in _usual():
        if any(name in step.name for name in classes.split("|")):
            continue
        if _matches_each(whole, patterns) and not matches_any(whole, unless):
            yield f"these reagents usually give another product: {sentence}"


def _matches_each(whole: Sequence[str], pattern: str) -> bool:
    """Return whether a flask holds all parts of a pattern between dots, one part given twice as often."""
    parts = pattern.split(".")
    if len(set(parts)) == len(parts):
        return matches_any(whole, pattern)
    return all(
        sum(len(_matches(molecule, part)) for molecule in whole if fits(molecule, part)) >= parts.count(part)
        for part in set(parts)
    )


def _matches(molecule: str, pattern: str) -> tuple[tuple[int, ...], ...]:
    return tuple(shared_mol(molecule).GetSubstructMatches(fixed_pattern(pattern)))


def unstable_product(product: str, given: Sequence[str], agents: Sequence[str]) -> Iterator[str]:
    """Yield why a product would fall apart or react on, if no molecule that gives it atoms has the same groups."""
    inorganic = [part for part in given if not matches_any([part], "[#6]")]  # gives an oxygen, say
    for patterns, unless, partners, sentence in _products():
        if (
            not matches_any([product], patterns)
            or matches_any([product], unless)
            or (partners and not matches_any([*agents, *inorganic], partners))
        ):
            continue
        if not any(matches_any([part], patterns) for part in given):
            yield f"this product falls apart: {sentence}" if not partners else f"this product reacts on: {sentence}"


@cache
def _usual() -> list[list[str]]:
    return read_asset_table(FOLDER / "flask_usual.tsv")


@cache
def _products() -> list[list[str]]:
    return read_asset_table(FOLDER / "flask_products.tsv")
