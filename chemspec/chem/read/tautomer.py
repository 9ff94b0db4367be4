"""The usual tautomer of amides and aromatic amines, where a source leaves it open."""

from __future__ import annotations

from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdinchi

from chemspec.chem import parsing
from chemspec.chem.trial import RDKIT_ERRORS

# Nitrogen that takes the hydrogen, carbon, and what gives it: imidic acids, imines on an aromatic ring, lactims.
_RARE = tuple(
    parsing.mol_from_smarts(pattern)
    for pattern in (
        *("[NX2]=[CX3]-[OX2H,SX2H]", "[NX2]=[c]:[nH]", "[NX2]=[c]:[a]:[a]:[nH]", "[NX2]=[c]:[a]:[nH]"),
        "[nX2;r6]:[c;r6]-[OX2H,SX2H]",
    )
)


def usual_form(mol: Any, inchi: str) -> Any:
    """Return the molecule with C(=O)N for C(O)=N and Nc1ncc... for N=c1[nH]c..., where the InChI leaves that open.

    RDKit takes the rare one, and a model has hardly seen it.
    """
    better = Chem.RWMol(mol)
    with rdBase.BlockLogs():
        try:
            for pattern in _RARE:
                while match := better.GetSubstructMatch(pattern):
                    _move_hydrogen(better, match[0], match[1], match[-1])
            plain = parsing.mol_from_smiles(Chem.MolToSmiles(better))
            return plain if plain is not None and rdinchi.MolToInchi(plain)[0] == inchi else mol
        except RDKIT_ERRORS:
            return mol


def _move_hydrogen(mol: Any, taker: int, carbon: int, giver: int) -> None:
    """Move a hydrogen from `giver` to `taker`, which has a double or aromatic bond to the carbon between them."""
    bond = mol.GetBondBetweenAtoms(taker, carbon)
    if not bond.GetIsAromatic() or mol.GetAtomWithIdx(giver).GetIsAromatic():
        bond.SetBondType(Chem.BondType.SINGLE)
        bond.SetStereo(Chem.BondStereo.STEREONONE)
    if not mol.GetAtomWithIdx(giver).GetIsAromatic():
        mol.GetBondBetweenAtoms(carbon, giver).SetBondType(Chem.BondType.DOUBLE)
    for index, hydrogens in ((taker, 1), (giver, -1)):
        atom = mol.GetAtomWithIdx(index)
        if atom.GetIsAromatic() or atom.GetNoImplicit() or atom.GetNumExplicitHs():
            atom.SetNumExplicitHs(atom.GetNumExplicitHs() + hydrogens)
    Chem.SanitizeMol(mol)
