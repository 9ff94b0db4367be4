"""2-D coordinates of molecules."""

from typing import Any

import numpy as np
from rdkit.Chem import rdCoordGen, rdDepictor

_ION_GAP = 1.3  # distance from the outermost atom, where a bond has 1.5


def add_layout(mol: Any) -> None:
    """Add 2-D coordinates where there are none, and replace those in which a bond has length zero.

    RDKit's layout puts bonded atoms of some bridged rings onto each other, which its drawing code refuses with a
    RuntimeError; CoordGen lays those out.
    """
    if not mol.GetNumConformers():
        rdDepictor.Compute2DCoords(mol)
    if shortest_bond(mol) < 1e-3:
        rdCoordGen.AddCoords(mol)  # unlike rdDepictor's option this changes no other thread's layouts


def place_ions(mol: Any) -> None:
    """Move ions of one atom next to the charges that they balance, to the left or right of the drawn molecule.

    RDKit's layout puts each part of a salt anywhere near the others, such as sodium above the middle of azide.
    """
    atoms = mol.GetAtoms()
    lone = [atom.GetIdx() for atom in atoms if atom.GetFormalCharge() and not atom.GetDegree()]
    rest = [atom.GetIdx() for atom in atoms if atom.GetDegree()]
    charged = [index for index in rest if mol.GetAtomWithIdx(index).GetFormalCharge()]
    if not lone or not charged:
        return
    conformer = mol.GetConformer()
    positions = conformer.GetPositions()
    left, right = positions[rest, 0].min(), positions[rest, 0].max()
    middle, placed = (left + right) / 2, list[tuple[float, float]]()
    for ion in lone:
        sign = mol.GetAtomWithIdx(ion).GetFormalCharge()
        opposite = [index for index in charged if mol.GetAtomWithIdx(index).GetFormalCharge() * sign < 0] or charged
        chosen = max(opposite, key=lambda index: abs(positions[index, 0] - middle))  # the outermost
        if len(charged) > 1:
            charged.remove(chosen)  # the next ion stands next to another
        x, y, _ = positions[chosen]
        side = left - _ION_GAP if x < middle else right + _ION_GAP
        while any(abs(there - y) < 1 and other == side for other, there in placed):
            y -= 1
        placed.append((side, y))
        conformer.SetAtomPosition(ion, [float(side), float(y), 0.0])


def shortest_bond(mol: Any) -> float:
    """Return the length of the shortest bond as drawn."""
    positions = mol.GetConformer().GetPositions()
    begins = [bond.GetBeginAtomIdx() for bond in mol.GetBonds()]
    ends = [bond.GetEndAtomIdx() for bond in mol.GetBonds()]
    return float(np.linalg.norm(positions[begins] - positions[ends], axis=1).min()) if begins else np.inf
