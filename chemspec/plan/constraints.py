"""Constraints on routes: protected bonds, an intermediate, substructures to avoid."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.molecules.parsing import mol_from_smarts, mol_from_smiles
from chemspec.chem.molecules.query import has_substructure
from chemspec.chem.molecules.salts import split_keeping_salts
from chemspec.chem.reactions.atom_maps import map_atoms
from chemspec.chem.reactions.guide import Bonds

MAX_CHARS, MAX_PATTERNS = 200, 5  # characters of a SMARTS, patterns of a search


def read_intermediate(text: str) -> str:
    """Return the canonical SMILES of one molecule, a SMILES, name or another format; ValueError if unreadable."""
    query = formats.read_input(text, task="retro")
    if isinstance(query, chem.Fault):
        raise ValueError(f"the intermediate {text[:60]!r} cannot be read: {query}")
    if len(split_keeping_salts(query.smiles)) != 1:
        raise ValueError(f"the intermediate {query.smiles[:60]} is several molecules; give one")
    return query.smiles


@lru_cache(maxsize=50_000)
def is_intermediate(smiles: str, intermediate: str) -> bool:
    """Return whether a molecule is the intermediate, of any stereochemistry if that is given without."""
    return smiles == intermediate or chem.drop_stereo(smiles) == intermediate


def check_patterns(patterns: tuple[str, ...]) -> None:
    """Check the SMARTS of substructures to avoid; ValueError if too many, or one is too long or cannot be read."""
    if len(patterns) > MAX_PATTERNS:
        raise ValueError(f"{len(patterns)} substructures to avoid are too many; the limit is {MAX_PATTERNS}")
    for smarts in patterns:
        if len(smarts) > MAX_CHARS:
            raise ValueError(f"a SMARTS of {len(smarts)} characters is too long; the limit is {MAX_CHARS}")
        if _read_pattern(smarts) is None:
            raise ValueError(f"the substructure to avoid, {smarts!r}, is not a SMARTS")


@lru_cache(maxsize=50_000)
def is_avoided(smiles: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a molecule has one of the substructures; one that takes too long to search counts as present."""
    return any(has_substructure(smiles, _read_pattern(smarts)) is not False for smarts in patterns)


def need_avoided(reactants: Iterable[str], patterns: tuple[str, ...]) -> bool:
    """Return whether one of the reactants of a step has one of the substructures."""
    return bool(patterns) and any(is_avoided(smiles, patterns) for smiles in reactants)


@lru_cache(maxsize=100)
def _read_pattern(smarts: str) -> Any:
    return mol_from_smarts(smarts)


SECONDS = 0.5  # limit of processor time for the map of one step; without a map the step is excluded


@lru_cache(maxsize=10_000)
def trace_bonds(reactants: tuple[str, ...], product: str, bonds: Bonds) -> dict[str, Bonds] | None:
    """Trace bonds of the product to its reactants, by reactant; None if a bond is formed or cannot be traced."""
    match = map_atoms(".".join(reactants), product, seconds=SECONDS) if bonds else None
    if match is None:
        return None if bonds else {}
    owners = [(smiles, atom) for smiles in reactants for atom in range(mol_from_smiles(smiles).GetNumAtoms())]
    traced: dict[str, Bonds] = {}
    for pair in bonds:
        first_atom, second_atom = (match.origin[atom] for atom in pair)
        if first_atom < 0 or second_atom not in match.left.bonds[first_atom]:
            return None
        (smiles, first), (_, second) = owners[first_atom], owners[second_atom]
        traced[smiles] = (*traced.get(smiles, ()), (first, second))
    return traced
