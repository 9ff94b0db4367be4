"""Labels on atoms that stand for a group, such as Boc: expanded where the group is known."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from rdkit import Chem

from chemspec.chem.parsing import mol_from_smiles

TABLE = Path(__file__).with_name("groups.tsv")


def only_numbers(label: str, symbol: str) -> bool:
    """Return whether a label says no more than the element of its atom: C, C7, CH3, H2N, 12 and the like."""
    bare = label.strip()
    if re.fullmatch(r"\d{1,4}[a-z]?'?", bare):
        return True
    element = re.escape(symbol)
    return bool(re.fullmatch(rf"(?i:{element})(?:\d{{1,4}}[a-z]?'*|H\d?)?|H\d?{element}", bare))


@cache
def _known() -> dict[str, str]:
    rows = (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {name: smiles for names, smiles in rows for name in names.split()}


def smiles_of(label: str) -> str:
    """Return the SMILES of a group, its first atom the one with the open bond; empty if it is not known."""
    return _known().get(re.sub(r"\s+", "", label), "")


def expand(mol: Any, labels: dict[int, str]) -> Any:
    """Return a molecule with groups in place of labelled atoms, each of one bond; RDKIT_ERRORS if a group does not fit.

    The molecule is as drawn, not sanitized, so that the stereo of a drawn centre is there whatever the label holds.
    """
    changed = Chem.RWMol(mol)
    for index, label in labels.items():
        group = mol_from_smiles(smiles_of(label))
        start = changed.GetNumAtoms()
        changed.InsertMol(group)
        neighbour = changed.GetAtomWithIdx(index).GetNeighbors()[0].GetIdx()
        # The first atom of the group takes the place of the labelled one, so that the stereo of its neighbour stays.
        first = Chem.Atom(changed.GetAtomWithIdx(start))
        first.SetNumRadicalElectrons(0)
        changed.ReplaceAtom(index, first)
        for bond in list(changed.GetAtomWithIdx(start).GetBonds()):
            other = bond.GetOtherAtomIdx(start)
            changed.AddBond(index, other, bond.GetBondType())
            changed.GetBondBetweenAtoms(index, other).SetIsAromatic(bond.GetIsAromatic())
            changed.RemoveBond(start, other)
        changed.GetBondBetweenAtoms(index, neighbour).SetBondType(Chem.BondType.SINGLE)
        changed.RemoveAtom(start)
    whole = changed.GetMol()
    Chem.SanitizeMol(whole)
    if whole.GetNumConformers():
        Chem.DetectBondStereochemistry(whole)
    Chem.AssignStereochemistry(whole, cleanIt=True, force=True)
    return whole
