"""Bonds of the target that no step may make: followed from product to reactants by guessed atom maps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from chemspec.chem.atom_maps import map_atoms
from chemspec.chem.guide import Bonds, named
from chemspec.chem.parsing import mol_from_smiles

__all__ = ["Bonds", "inherit", "named"]
SECONDS = 0.5  # of processor time for the map of one step; without a map in that time a step is left out


def inherit(reactants: Sequence[str], product: str, bonds: Bonds) -> dict[str, Bonds] | None:
    """Return these bonds of the product in its reactants, by reactant; None if one is missing there, or untraceable."""
    return _inherit(tuple(reactants), product, bonds) if bonds else {}


@lru_cache(maxsize=10_000)
def _inherit(reactants: tuple[str, ...], product: str, bonds: Bonds) -> dict[str, Bonds] | None:
    match = map_atoms(".".join(reactants), product, seconds=SECONDS)
    if match is None:
        return None
    owners = [(smiles, atom) for smiles in reactants for atom in range(mol_from_smiles(smiles).GetNumAtoms())]
    found: dict[str, Bonds] = {}
    for pair in bonds:
        one, other = (match.origin[atom] for atom in pair)
        if one < 0 or other not in match.left.bonds[one]:
            return None
        (smiles, first), (_, second) = owners[one], owners[other]
        found[smiles] = (*found.get(smiles, ()), (first, second))
    return found
