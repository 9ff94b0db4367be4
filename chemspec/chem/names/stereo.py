"""Stereo descriptors before a name: (S)-proline, D-alanine, rac-ibuprofen."""

from __future__ import annotations

import re

from rdkit import Chem, rdBase
from rdkit.Chem import FindPotentialStereo

from chemspec.chem.parsing import mol_from_smiles

_DESCRIPTOR = re.compile(
    r"(?:\((?P<cip>[RSEZ])\)|(?P<bare>[RSEZ])|(?P<l>[DL])|(?P<rac>rac|DL|RS|\(RS\)|\((?:\+-|\+/-)\)|racemic)"
    r"|(?P<geo>trans|cis))(?:-\([+-]\))?[-\s]\s*(?P<name>[a-z0-9(].*)"
)


def split_descriptor(name: str) -> tuple[str, str] | None:
    """Return a stereo descriptor (R, S, E, Z, D, L or rac) and the rest of a plain name; None without one."""
    match = _DESCRIPTOR.fullmatch(name)
    if match is None or not re.search("[a-z]{3}", match["name"]):
        return None
    sign = match["cip"] or match["bare"] or match["l"] or {"trans": "E", "cis": "Z"}.get(match["geo"] or "", "rac")
    return sign, match["name"]


def with_descriptor(smiles: str, sign: str) -> str | None:
    """Return the stereoisomer that a descriptor means; None unless the molecule has just one such stereo element."""
    mol = mol_from_smiles(smiles)
    if mol is None:
        return None
    with rdBase.BlockLogs():
        Chem.RemoveStereochemistry(mol)
        if sign == "rac":
            return str(Chem.MolToSmiles(mol))
        kind = Chem.StereoType.Bond_Double if sign in "EZ" else Chem.StereoType.Atom_Tetrahedral
        elements = [element for element in FindPotentialStereo(mol) if element.type == kind]
        if len(elements) != 1:
            return None
        if sign in "EZ":
            bond = mol.GetBondWithIdx(elements[0].centeredOn)
            ends = [
                next(a.GetIdx() for a in atom.GetNeighbors() if a.GetIdx() != other.GetIdx())
                for atom, other in ((bond.GetBeginAtom(), bond.GetEndAtom()), (bond.GetEndAtom(), bond.GetBeginAtom()))
            ]
            bond.SetStereoAtoms(*ends)
            for stereo in (Chem.BondStereo.STEREOCIS, Chem.BondStereo.STEREOTRANS):
                bond.SetStereo(stereo)
                again = mol_from_smiles(Chem.MolToSmiles(mol))
                Chem.AssignStereochemistry(again, force=True, cleanIt=True)
                if any(b.GetStereo() == getattr(Chem.BondStereo, f"STEREO{sign}") for b in again.GetBonds()):
                    return str(Chem.MolToSmiles(again))
            return None
        atom = mol.GetAtomWithIdx(elements[0].centeredOn)
        for tag in (Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW):
            atom.SetChiralTag(tag)
            Chem.AssignStereochemistry(mol, force=True, cleanIt=True)
            if atom.HasProp("_CIPCode") and atom.GetProp("_CIPCode") == sign:
                return str(Chem.MolToSmiles(mol))
    return None
