"""Which elements a pattern needs, so that RDKit matches only patterns that may fit; never says no wrongly."""

from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

AROMATIC = 1000  # added to the atomic number, as RDKit does in its queries
AtomTypes = frozenset[int] | None  # kinds of atoms that an atom of a pattern may be; None: any


@cache
def allowed_types(pattern: Any) -> tuple[AtomTypes, ...]:
    """Return for each atom of a SMARTS the types, see `atom_types`, that it may match."""
    return tuple(_read_query(atom.DescribeQuery().splitlines()) for atom in pattern.GetAtoms())


@cache
def needed_types(pattern: Any) -> tuple[frozenset[int], ...]:
    """Return the sets of types of which a molecule with a pattern has at least one each, the rarest first."""
    needed = {types for types in allowed_types(pattern) if types is not None}
    return tuple(sorted(needed, key=lambda types: 6 in types))  # carbon is everywhere


def may_match(pattern: Any, types: Collection[int]) -> bool:
    """Return whether a molecule with atoms of these types may hold a pattern."""
    return has_types(needed_types(pattern), types)


def has_types(needs: Iterable[frozenset[int]], types: Collection[int]) -> bool:
    """Return whether there is one of the types of each need."""
    for need in needs:  # noqa: SIM110 (called very often)
        if need.isdisjoint(types):
            return False
    return True


@cache
def numbered_atoms(pattern: Any) -> list[tuple[int, int]]:
    """Return the numbered atoms of a pattern with their numbers."""
    return [(atom.GetIdx(), atom.GetAtomMapNum()) for atom in pattern.GetAtoms() if atom.GetAtomMapNum()]


@cache
def numbered_bonds(pattern: Any) -> list[tuple[int, int]]:
    """Return the bonds between the atoms numbered 1 and 2, 3 and 4, and so on."""
    numbers = {number: atom for atom, number in numbered_atoms(pattern)}
    return [(atom, numbers[end + 1]) for end, atom in numbers.items() if end % 2 and end + 1 in numbers]


def atom_types(mol: Any) -> frozenset[int]:
    """Return the types of a molecule's atoms: the atomic number, and 1000 more for aromatic ones."""
    atoms = map(mol.GetAtomWithIdx, range(mol.GetNumAtoms()))  # several times as fast as RDKit's own loop
    return frozenset(atom.GetAtomicNum() + AROMATIC * atom.GetIsAromatic() for atom in atoms)


def _read_query(lines: list[str]) -> AtomTypes:
    """Read what `DescribeQuery` says: one test a line, those below "AtomAnd" or "AtomOr" indented."""
    head, rest = lines[0].strip() if lines else "", lines[1:]
    match head.split():
        case ["AtomType", number, "=", "val"]:
            return frozenset({int(number)})
        case ["AtomAtomicNum", number, "=", "val"]:
            return frozenset({int(number), int(number) + AROMATIC})
        case ["AtomAnd" | "AtomOr" as kind] if rest:
            depth = len(rest[0]) - len(rest[0].lstrip())
            starts = [at for at, line in enumerate(rest) if len(line) - len(line.lstrip()) == depth]
            parts = [_read_query(rest[at:end]) for at, end in zip(starts, [*starts[1:], len(rest)], strict=True)]
            limits = [part for part in parts if part is not None]
            if kind == "AtomOr":
                return frozenset().union(*limits) if len(limits) == len(parts) else None
            return frozenset.intersection(*limits) if limits else None
    return None
