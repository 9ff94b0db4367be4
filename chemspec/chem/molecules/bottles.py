"""Precursors as what stands in a bottle: no bare ions, and a Grignard reagent in one piece.

Retro models are trained on text-mined reactions, of which many name one ion of a salt. An ion without a counterion
becomes the compound of `bottles.tsv`; else a carboxylate its acid, RMg+ the bromide RMgBr, another anion its sodium
salt, and another cation its chloride, a phosphonium or sulfonium ion its bromide. Ions that balance stay.
"""

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rdkit import Chem, rdBase

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.molecules.query import canonical
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS
from chemspec.chem.molecules.salts import charge_of, group_salts

TABLE = Path(__file__).with_name("bottles.tsv")
_MAGNESIUM = ("[Mg]", "[Mg+]")  # Mg2+ is a salt
_HALIDES = {"[Cl-]": "[#6][Cl]", "[Br-]": "[#6][Br]", "[I-]": "[#6][I]"}


@lru_cache(maxsize=20_000)
def as_bottled(smiles: str) -> str:
    """Return canonical SMILES of precursors with compounds in place of bare ions; the same text if there are none."""
    if "+" not in smiles and "-" not in smiles:
        return smiles
    parts = smiles.split(".")
    with rdBase.BlockLogs():
        try:
            parts = _join_grignard(parts) or parts
            bare = [group[0] for group in group_salts(parts) if len(group) == 1 and charge_of(parts[group[0]])]
            written = [_bottle(part) if index in bare else part for index, part in enumerate(parts)]
        except RDKIT_ERRORS:
            return smiles
    if written == smiles.split("."):
        return smiles
    return canonical(".".join(written)) or smiles


def _join_grignard(parts: list[str]) -> list[str] | None:
    """Return the parts with RMgX in place of RX, a halide ion and magnesium; None if these are not all there."""
    magnesium = next((part for part in parts if part in _MAGNESIUM), "")
    for halide, pattern in _HALIDES.items():
        if not magnesium or halide not in parts:
            continue
        for part in parts:
            mol = Chem.RWMol(mol_from_smiles(part))
            match = mol.GetSubstructMatch(fixed_pattern(pattern))
            if match:
                carbon, halogen = match
                mol.RemoveBond(carbon, halogen)
                metal = mol.AddAtom(Chem.Atom("Mg"))
                mol.AddBond(carbon, metal, Chem.BondType.SINGLE)
                mol.AddBond(metal, halogen, Chem.BondType.SINGLE)
                return [Chem.MolToSmiles(mol), *(other for other in parts if other not in (part, halide, magnesium))]
    return None


def _bottle(ion: str) -> str:
    if compound := _table().get(ion):
        return compound
    mol: Any = Chem.RWMol(mol_from_smiles(ion))
    charge = charge_of(ion)
    if charge < 0:
        for _, _, oxygen in mol.GetSubstructMatches(fixed_pattern("[CX3](=O)[O-]"))[:-charge]:
            mol.GetAtomWithIdx(oxygen).SetFormalCharge(0)
            mol.GetAtomWithIdx(oxygen).SetNoImplicit(False)
            charge += 1
        Chem.SanitizeMol(mol)
        return ".".join([Chem.MolToSmiles(mol), *["[Na+]"] * -charge])
    magnesium = [atom for atom in mol.GetAtoms() if atom.GetSymbol() == "Mg" and atom.GetFormalCharge() == 1]
    if charge == 1 and magnesium:
        magnesium[0].SetFormalCharge(0)
        bromine = mol.AddAtom(Chem.Atom("Br"))
        mol.AddBond(magnesium[0].GetIdx(), bromine, Chem.BondType.SINGLE)
        Chem.SanitizeMol(mol)
        return str(Chem.MolToSmiles(mol))
    halide = "[Br-]" if any(atom.GetSymbol() in "PS" and atom.GetFormalCharge() for atom in mol.GetAtoms()) else "[Cl-]"
    return ".".join([ion, *[halide] * charge])


@cache
def _table() -> dict[str, str]:
    return {str(canonical(ion)): compound for ion, compound in read_asset_table(TABLE)}
