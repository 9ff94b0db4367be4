"""Find the atoms that take part in a reaction, by the guessed atom maps of `atom_maps.py`."""

from __future__ import annotations

from dataclasses import dataclass

from chemspec.chem.atom_maps import map_atoms


@dataclass(frozen=True)
class Changes:
    """Atoms that take part, by index in each SMILES as written (`chem.atom_tokens`), ascending.

    Attributes:
        reactant_atoms: atoms that change or leave, of the molecules that give atoms to the product.
        product_atoms: atoms with other bonds, charge or hydrogens than before, or of unknown origin.
        mapped: how many atoms of the product were found in the reactants.
    """

    reactant_atoms: tuple[int, ...]
    product_atoms: tuple[int, ...]
    mapped: int


def changes(reactants: str, product: str, *, seconds: float = 0.2) -> Changes | None:
    """Return the atoms that take part in a reaction; None if a SMILES cannot be read, or is too large for the time.

    Never raises.

    Args:
        reactants: with or without agents; a molecule that gives no atom to the product has none that change.
        product: of one molecule or several.
        seconds: of processor time in this thread, all in all.
    """
    match = map_atoms(reactants, product, seconds=seconds)
    if match is None:
        return None
    changed = [atom for atom in range(len(match.origin)) if match.changes(atom)]
    origins = {match.origin[atom] for atom in changed}
    before = [
        atom
        for atom, molecule in enumerate(match.left.molecules)
        if match.given[molecule] and (atom in origins or match.target[atom] < 0)
    ]
    return Changes(tuple(before), tuple(changed), sum(match.given))
