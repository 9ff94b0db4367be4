"""Split SMILES into molecules with salts kept together, and normal forms of reagent sets; needs RDKit only."""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import combinations

from rdkit import Chem

from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.query import canonical, drop_stereo

_MAP = re.compile(r":\d+(?=\])")  # the map number of an atom


def split_keeping_salts(smiles: str) -> tuple[str, ...]:
    """Return the molecules of a canonical SMILES, sorted; all ions together are one salt, as it is bought."""
    parts = smiles.split(".")
    if len(parts) == 1 or not any(sign in smiles for sign in "+-"):
        return tuple(sorted(parts))
    ions = [part for part in parts if charge_of(part)]
    salt = canonical(".".join(ions)) if ions else None
    return tuple(sorted([part for part in parts if part not in ions] + ([salt] if salt else [])))


def group_salts(parts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Group components in the order of a text by index: one per neutral molecule, several per salt.

    Ions are paired by charge and distance in the text, multiply charged ones first; unpaired ions remain single. Groups
    are sorted by their first component.
    """
    charges = [charge_of(part) for part in parts]
    free = {index for index, charge in enumerate(charges) if charge}
    salts: list[tuple[int, ...]] = []

    def join(ions: Sequence[int]) -> None:
        salts.append(tuple(sorted(ions)))
        free.difference_update(ions)

    pairs = [pair for pair in combinations(range(len(parts)), 2) if sum(charges[index] for index in pair) == 0]
    pairs.sort(key=lambda pair: (-abs(charges[pair[0]]), pair[1] - pair[0], pair[0]))  # then by distance
    for ions in pairs:
        if abs(charges[ions[0]]) > 1 and free.issuperset(ions):
            join(ions)
    for index in sorted(free, key=lambda index: (-abs(charges[index]), index)):
        if index in free and abs(charges[index]) > 1 and (others := _find_counterions(index, free, parts, charges)):
            join((index, *others))
    for ions in pairs:
        if free.issuperset(ions):
            join(ions)
    inside = {index for salt in salts for index in salt}
    return tuple(sorted([*salts, *((index,) for index in range(len(parts)) if index not in inside)]))


def group_molecules(parts: Sequence[str]) -> list[tuple[int, ...]]:
    """Group the components of a mixture as `group_salts` does, without ions that have no counterion."""
    return [group for group in group_salts(parts) if len(group) > 1 or not charge_of(parts[group[0]])]


def _find_counterions(index: int, free: Collection[int], parts: Sequence[str], charges: Sequence[int]) -> list[int]:
    """Return the nearest ions that balance an ion's charge, of one kind if possible; empty if there are none."""
    candidates_by_distance = sorted(
        (ion for ion in free if charges[ion] * charges[index] < 0), key=lambda ion: (abs(ion - index), ion)
    )
    kinds: dict[str, list[int]] = {}
    for ion in candidates_by_distance:
        kinds.setdefault(parts[ion], []).append(ion)
    for candidates in (*kinds.values(), candidates_by_distance):
        taken, remaining = [], abs(charges[index])
        for ion in candidates:
            if abs(charges[ion]) <= remaining:
                taken.append(ion)
                remaining -= abs(charges[ion])
        if remaining == 0:
            return taken
    return []


@lru_cache(maxsize=10_000)
def charge_of(part: str) -> int:
    """Return the charge of a molecule, 0 if it is invalid."""
    if not any(sign in part for sign in "+-"):
        return 0
    mol = mol_from_smiles(part)
    return 0 if mol is None else int(Chem.GetFormalCharge(mol))


def in_typed_order(typed: str, smiles: str) -> str:
    """Reorder a canonical SMILES to the typed order of molecules (perhaps mapped), the ions of salts adjacent."""
    if "." not in smiles:
        return smiles
    remaining = smiles.split(".")
    parts: list[str] = []
    for written in _MAP.sub("", typed).split("."):
        part = canonical(written)
        if part in remaining:  # else the canonical form exists only for the whole text
            remaining.remove(part)
            parts.append(part)
    parts += remaining
    return ".".join(parts[index] for salt in group_salts(parts) for index in salt)


def normal_form(reagents: str) -> str | None:
    """Return each reagent of a set once, without stereo (as in USPTO-MIT), in alphabetical order.

    Equal sets have equal texts, whatever their equivalents and order, so that a model has one correct output. None if a
    reagent is invalid or the set is empty.
    """
    parts = {_without_stereo(part) for part in reagents.split(".") if part}
    return None if None in parts or not parts else ".".join(sorted(filter(None, parts)))


def other_reagents(flask: str, core: str) -> str:
    """Return the reagents of a mixture except core reactants, in normal form; empty if none, or some are invalid."""
    core_parts = {_without_stereo(part) for part in core.split(".")}
    return normal_form(".".join(part for part in flask.split(".") if _without_stereo(part) not in core_parts)) or ""


_without_stereo = lru_cache(maxsize=100_000)(drop_stereo)  # reagents recur


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
