"""2-D coordinates of molecules."""

from typing import Any

import numpy as np
from rdkit.Chem import rdCoordGen, rdDepictor


def add_layout(mol: Any) -> None:
    """Add 2-D coordinates where there are none, and replace those in which a bond has length zero.

    RDKit's layout puts bonded atoms of some bridged rings onto each other, which its drawing code refuses with a
    RuntimeError; CoordGen lays those out.
    """
    if not mol.GetNumConformers():
        rdDepictor.Compute2DCoords(mol)
    if _shortest_bond(mol) < 1e-3:
        rdCoordGen.AddCoords(mol)  # unlike rdDepictor's option this changes no other thread's layouts


def _shortest_bond(mol: Any) -> float:
    positions = mol.GetConformer().GetPositions()
    begins = [bond.GetBeginAtomIdx() for bond in mol.GetBonds()]
    ends = [bond.GetEndAtomIdx() for bond in mol.GetBonds()]
    return float(np.linalg.norm(positions[begins] - positions[ends], axis=1).min()) if begins else np.inf
