"""The molecules of a flask: which give the product atoms, and which hold a pattern."""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from chemspec.chem.molecules.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.molecules.pattern_screen import atom_types, may_match
from chemspec.chem.reactions.strategy import Strategy


def split_flask(flask: str, step: Strategy) -> tuple[list[str], list[str]]:
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
        mol = _molecule(part)
        end = start + (mol.GetNumAtoms() if mol is not None else 0)
        yield part, frozenset(range(start, end))
        start = end


def holds(parts: Sequence[str], patterns: str) -> bool:
    """Return whether molecules together hold one of the patterns, which blanks part, and all its parts between dots."""
    types = frozenset().union(*map(_types, parts))
    return any(
        all(
            may_match(fixed_pattern(smarts), types) and any(fits(part, smarts) for part in parts) for smarts in smartses
        )
        for smartses in _split_patterns(patterns)
    )


@cache
def _split_patterns(patterns: str) -> list[list[str]]:
    return [pattern.split(".") for pattern in patterns.split()]


@lru_cache(maxsize=100_000)  # reagents recur
def fits(part: str, smarts: str) -> bool:
    """Return whether a molecule holds a pattern."""
    pattern = fixed_pattern(smarts)
    mol = _molecule(part)
    return mol is not None and may_match(pattern, _types(part)) and bool(mol.HasSubstructMatch(pattern))


@lru_cache(maxsize=4000)
def _types(part: str) -> frozenset[int]:
    mol = _molecule(part)
    return frozenset() if mol is None else atom_types(mol)


_molecule = lru_cache(maxsize=1000)(mol_from_smiles)
