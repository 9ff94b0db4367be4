"""Search a substructure with a limit on the work, whatever the pattern."""

from __future__ import annotations

from typing import Any

from rdkit import Chem, rdBase

from chemspec.chem.parsing import mol_from_smiles

MAX_COMPARED = 200_000  # pairs of atoms compared; some patterns would need all there are


def has_substructure(smiles: str, pattern: Any) -> bool | None:
    """Return whether a molecule has a substructure, an RDKit query; None if it takes more than `MAX_COMPARED` pairs."""
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
    if mol is None:
        return False
    left = MAX_COMPARED

    def compare(*_: Any) -> bool:
        nonlocal left
        left -= 1
        return left > 0  # then nothing fits any more, and the search ends

    parameters = Chem.SubstructMatchParameters()
    parameters.setExtraAtomCheckFunc(compare)
    matched = bool(mol.HasSubstructMatch(pattern, parameters))
    return matched if left > 0 else None
