"""Keep the ions of a salt together where a SMILES is taken apart; needs RDKit alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

from rdkit import Chem, rdBase

from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.query import canonical


def split(smiles: str) -> tuple[str, ...]:
    """Return the molecules of a canonical SMILES, sorted; its ions together are one, as they are bought."""
    parts = smiles.split(".")
    if len(parts) == 1 or not any(sign in smiles for sign in "+-"):
        return tuple(sorted(parts))
    ions = [part for part in parts if charge(part)]
    salt = canonical(".".join(ions)) if ions else None
    return tuple(sorted([part for part in parts if part not in ions] + ([salt] if salt else [])))


def pair(parts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the places of the molecules in a flask: of a neutral one its own, of a salt those of its ions.

    Ions are put together by charge and nearness, those of several charges first. What is left over stays alone. A salt
    stands where its first ion stood.

    Args:
        parts: SMILES without dots, in the order of the flask.
    """
    charges = [charge(part) for part in parts]
    free = {place for place, charge in enumerate(charges) if charge}
    salts: list[tuple[int, ...]] = []

    def join(ions: Sequence[int]) -> None:
        salts.append(tuple(sorted(ions)))
        free.difference_update(ions)

    for ions in _opposites(charges):  # the nearest first, those of more charges before
        if abs(charges[ions[0]]) > 1 and free.issuperset(ions):
            join(ions)
    for place in sorted(free, key=lambda place: (-abs(charges[place]), place)):
        if place in free and abs(charges[place]) > 1 and (others := _counterions(place, free, parts, charges)):
            join((place, *others))
    for ions in _opposites(charges):
        if free.issuperset(ions):
            join(ions)
    inside = {place for salt in salts for place in salt}
    return tuple(sorted([*salts, *((place,) for place in range(len(parts)) if place not in inside)]))


def _opposites(charges: Sequence[int]) -> list[tuple[int, int]]:
    """Return pairs of ions of equal opposite charge, the nearest first."""
    places = range(len(charges))
    pairs = [(a, b) for a in places for b in places[a + 1 :] if charges[a] and charges[a] == -charges[b]]
    return sorted(pairs, key=lambda pair: (-abs(charges[pair[0]]), pair[1] - pair[0], pair[0]))


def _counterions(place: int, free: Collection[int], parts: Sequence[str], charges: Sequence[int]) -> list[int]:
    """Return the nearest ions that make up for the charge of one, of one kind if there are enough; empty if none do."""
    near = sorted((ion for ion in free if charges[ion] * charges[place] < 0), key=lambda ion: (abs(ion - place), ion))
    kinds = [[ion for ion in near if parts[ion] == kind] for kind in dict.fromkeys(parts[ion] for ion in near)]
    for candidates in (*kinds, near):
        taken, left = [], abs(charges[place])
        for ion in candidates:
            if abs(charges[ion]) <= left:
                taken.append(ion)
                left -= abs(charges[ion])
        if left == 0:
            return taken
    return []


@lru_cache(maxsize=10_000)
def charge(part: str) -> int:
    """Return the charge of a molecule, 0 where it cannot be read."""
    if not any(sign in part for sign in "+-"):
        return 0
    with rdBase.BlockLogs():
        mol = mol_from_smiles(part)
    return 0 if mol is None else int(Chem.GetFormalCharge(mol))


def in_order(typed: str, smiles: str) -> str:
    """Return a canonical SMILES with its molecules in the order in which they were typed, salts in one piece.

    Args:
        typed: a SMILES of the same molecules, maybe with atom maps.
        smiles: canonical, without maps.
    """
    if "." not in smiles:
        return smiles
    left = smiles.split(".")
    parts = []
    for part in _fragments(typed):
        if part in left:  # else only the whole has a form without maps or spare hydrogens
            left.remove(part)
            parts.append(part)
    parts += left
    return ".".join(parts[place] for salt in pair(parts) for place in salt)


def _fragments(typed: str) -> list[str]:
    """Return the molecules of a SMILES, canonical, in the order of their first atoms."""
    with rdBase.BlockLogs():
        mol = mol_from_smiles(typed)
        if mol is None:
            return []
        for atom in mol.GetAtoms():
            atom.SetAtomMapNum(0)
        whole = [Chem.MolToSmiles(part) for part in Chem.GetMolFrags(mol, asMols=True)]
    return [canonical(part) or part for part in whole]
