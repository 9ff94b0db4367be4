"""The molecules of a flask: which give the product atoms, and which hold a pattern."""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

from chemspec.chem.molecules.parsing import fixed_pattern, shared_mol
from chemspec.chem.molecules.pattern_screen import atom_types, has_types, may_match, needed_types
from chemspec.chem.reactions.step_class import StepClass


def split_flask(flask: str, step: StepClass) -> tuple[list[str], list[str]]:
    """Return the molecules of a flask that give the product atoms, and the others."""
    given: list[str] = []
    agents: list[str] = []
    for part, atoms in atoms_by_molecule(flask):
        (agents if atoms.isdisjoint(step.origin) else given).append(part)
    return given, agents


def atoms_by_molecule(flask: str) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield the molecules of a flask with the indices of their atoms in it; an invalid one has none."""
    start = 0
    for part in flask.split("."):
        mol = shared_mol(part)
        end = start + (mol.GetNumAtoms() if mol is not None else 0)
        yield part, frozenset(range(start, end))
        start = end


def matches_any(parts: Sequence[str], patterns: str) -> bool:
    """Return whether molecules match one of the patterns (SMARTS separated by blanks).

    The parts of a pattern between dots may match different molecules.
    """
    types = _types_of(tuple(parts))
    for pattern in _split_patterns(patterns):  # loops, as this is called very often
        for smarts, needs in pattern:
            if not has_types(needs, types):
                break
            for part in parts:
                if fits(part, smarts):
                    break
            else:
                break
        else:
            return True
    return False


@cache
def _split_patterns(patterns: str) -> list[list[tuple[str, tuple[frozenset[int], ...]]]]:
    """Return the patterns as their parts, each with the types of atoms that it needs."""
    return [[(part, needed_types(fixed_pattern(part))) for part in text.split(".")] for text in patterns.split()]


@lru_cache(maxsize=4000)
def _types_of(parts: tuple[str, ...]) -> frozenset[int]:
    return frozenset[int]().union(*map(_types, parts))


@lru_cache(maxsize=100_000)  # reagents recur
def fits(part: str, smarts: str) -> bool:
    """Return whether a molecule holds a pattern."""
    pattern = fixed_pattern(smarts)
    if not may_match(pattern, _types(part)):
        return False
    mol = shared_mol(part)
    return mol is not None and bool(mol.HasSubstructMatch(pattern))


def matches_of(mol: Any, smarts: str) -> tuple[tuple[int, ...], ...]:
    """Return where a molecule, which is not changed any more, holds a pattern: the atoms of each match."""
    pattern = fixed_pattern(smarts)
    return tuple(mol.GetSubstructMatches(pattern)) if may_match(pattern, _types_of_mol(mol)) else ()


_types_of_mol = lru_cache(maxsize=16)(atom_types)  # of both sides of a reaction, which is asked for many patterns


@lru_cache(maxsize=4000)
def _types(part: str) -> frozenset[int]:
    mol = shared_mol(part)
    return frozenset() if mol is None else atom_types(mol)
