"""Laws that the product of a flask must keep: electrons, oxygens of a double bond, and where reagents add to it.

A law looks at the atom map of a step that is there anyway. What contradicts it is a sentence; false alarms among
recorded reactions are counted by `tests/benchmarks/flask_check.py`.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from chemspec.asset_files import read_asset_table
from chemspec.chem.flask_parts import fits, holds
from chemspec.chem.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.strategy import Strategy

FOLDER = Path(__file__).parent
# Electronegativities; nitrogen above chlorine, since the chlorine of N-chloro compounds is what oxidises.
_ATTRACTION = {9: 4.0, 8: 3.5, 7: 3.3, 17: 3.1, 35: 2.9, 53: 2.7, 16: 2.6, 34: 2.56, 6: 2.55, 1: 2.2, 15: 2.19}
_METAL = 1.9  # all others: boron, silicon and metals
_HYDROGEN = 1
REDUCTANT = "a reductant"
OXIDANT = "an oxidant"
_ADDITIONS = ("Dihydroxylation", "Epoxidation")
# Words of classes without a balance: halogens come in many forms, as ions too, and formyl groups from many carbons.
_OPEN = ("alogenation", "Addition of a halogen", "ormylation")
_BORANES = "[BX3;!H0] [BH3] [BH4-].B(F)(F)F"
_AZOLE = "[c;$(c1nc[s,o][cH]1)]-c"  # arylated at carbon 4 while carbon 5 is free
_MARKOVNIKOV = "[Hg] [Hg+2] [Hg+]"


def missing_electrons(step: Strategy, left: Any, right: Any) -> str:
    """Return what a step needs to balance its electrons, a reductant or an oxidant; empty where it needs neither.

    The atoms that stay are compared before and after, with hydrogen; a group that leaves takes its electrons along.
    """
    if not step.after or min(step.origin) < 0 or any(word in step.name for word in _OPEN):
        return ""
    stays = set(step.origin)
    gone = [left.GetAtomWithIdx(atom) for atom in step.before if atom not in stays]
    if any(atom.GetSymbol() in ("N", "S") and atom.GetFormalCharge() for atom in gone):
        return ""  # dinitrogen, nitro groups and sulfonium salts leave with any number of electrons
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


def law_conflicts(step: Strategy, left: Any, right: Any, whole: Sequence[str]) -> Iterator[str]:
    """Yield what is against a law: too many oxygens for a double bond, and the wrong end of one."""
    yield from _site_conflicts(step, left, right)
    opened = list(_opened_double_bonds(step, left, right))
    oxygens = [pair for pair in step.made if {right.GetAtomWithIdx(a).GetSymbol() for a in pair} == {"C", "O"}]
    names = step.name.split(" + ")
    if any(name in _ADDITIONS for name in names) and len(oxygens) > 2 * max(1, len(opened)):
        yield f"a double bond takes up two C-O bonds, and this product has {len(oxygens)} new ones"
    hydroxyls = {atom for pair in oxygens for atom in pair if right.GetAtomWithIdx(atom).GetSymbol() == "C"}
    if len(hydroxyls) != 1 or "Hydration of an alkene" not in names:
        return
    for first, second in opened:
        for atom, other in ((first, second), (second, first)):
            if atom not in hydroxyls:
                continue
            here, there = (left.GetAtomWithIdx(step.origin[end]).GetTotalNumHs() for end in (atom, other))
            if here < there and holds(whole, _BORANES):
                yield "hydroboration puts the hydroxyl group at the end of the double bond with more hydrogen"
            if here > there and holds(whole, _MARKOVNIKOV):
                yield "oxymercuration puts the hydroxyl group at the end of the double bond with less hydrogen"


def _site_conflicts(step: Strategy, left: Any, right: Any) -> Iterator[str]:
    """Yield where a new bond is at a site that the reaction does not choose."""
    if "Direct arylation" in step.name:
        for hit in right.GetSubstructMatches(fixed_pattern(_AZOLE)):
            if any(set(pair) == set(hit[:2]) for pair in step.made):
                yield "direct arylation of such an azole takes the carbon atom next to sulfur or oxygen"
    if "Baeyer-Villiger oxidation" not in step.name:
        return
    for moved, _, carbonyl, _, stays in right.GetSubstructMatches(fixed_pattern("[CX4]-[OX2]-[CX3](=O)-[CX4]")):
        ends = [step.origin[atom] for atom in (moved, carbonyl, stays)]
        if min(ends) < 0 or left.GetBondBetweenAtoms(ends[0], ends[1]) is None:
            continue
        if left.GetAtomWithIdx(ends[0]).GetTotalNumHs() > left.GetAtomWithIdx(ends[2]).GetTotalNumHs():
            yield "in the Baeyer-Villiger oxidation the more substituted carbon atom moves"


def _opened_double_bonds(step: Strategy, left: Any, right: Any) -> Iterator[tuple[int, int]]:
    """Yield the C=C bonds that become single, as atoms of the product."""
    after = [atom for atom in step.after if step.origin[atom] >= 0 and right.GetAtomWithIdx(atom).GetSymbol() == "C"]
    for k, atom in enumerate(after):
        for other in after[:k]:
            bond = right.GetBondBetweenAtoms(atom, other)
            before = left.GetBondBetweenAtoms(step.origin[atom], step.origin[other])
            if bond and before and before.GetBondTypeAsDouble() == 2 and bond.GetBondTypeAsDouble() == 1:
                yield other, atom


def unusual_class(step: Strategy, whole: Sequence[str]) -> Iterator[str]:
    """Yield what well-known reagents of a flask usually do together, where the answer is of another class."""
    for patterns, unless, classes, sentence in _usual():
        if any(name in step.name for name in classes.split("|")):
            continue
        if _holds_each(whole, patterns) and not holds(whole, unless):
            yield f"these reagents usually give another product: {sentence}"


def _holds_each(whole: Sequence[str], pattern: str) -> bool:
    """Return whether a flask holds all parts of a pattern between dots, one part given twice as often."""
    parts = pattern.split(".")
    if len(set(parts)) == len(parts):
        return all(any(fits(molecule, part) for molecule in whole) for part in parts)
    return all(
        sum(len(_matches(molecule, part)) for molecule in whole if fits(molecule, part)) >= parts.count(part)
        for part in set(parts)
    )


def _matches(molecule: str, pattern: str) -> tuple[tuple[int, ...], ...]:
    return tuple(mol_from_smiles(molecule).GetSubstructMatches(fixed_pattern(pattern)))


@cache
def _usual() -> list[list[str]]:
    return read_asset_table(FOLDER / "flask_usual.tsv")
