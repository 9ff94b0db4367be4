"""Protected bonds of the target, which no step may form: traced from product to reactants by guessed atom maps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from chemspec.chem.atom_maps import map_atoms
from chemspec.chem.guide import Bonds, bonds_by_name
from chemspec.chem.parsing import mol_from_smiles

__all__ = ["Bonds", "bonds_by_name", "trace_bonds"]
SECONDS = 0.5  # limit of processor time for the map of one step; without a map the step is excluded


def trace_bonds(reactants: Sequence[str], product: str, bonds: Bonds) -> dict[str, Bonds] | None:
    """Trace bonds of the product to its reactants, by reactant; None if a bond is formed or cannot be traced."""
    return _trace_bonds_cached(tuple(reactants), product, bonds) if bonds else {}


@lru_cache(maxsize=10_000)
def _trace_bonds_cached(reactants: tuple[str, ...], product: str, bonds: Bonds) -> dict[str, Bonds] | None:
    match = map_atoms(".".join(reactants), product, seconds=SECONDS)
    if match is None:
        return None
    owners = [(smiles, atom) for smiles in reactants for atom in range(mol_from_smiles(smiles).GetNumAtoms())]
    traced: dict[str, Bonds] = {}
    for pair in bonds:
        first_atom, second_atom = (match.origin[atom] for atom in pair)
        if first_atom < 0 or second_atom not in match.left.bonds[first_atom]:
            return None
        (smiles, first), (_, second) = owners[first_atom], owners[second_atom]
        traced[smiles] = (*traced.get(smiles, ()), (first, second))
    return traced
