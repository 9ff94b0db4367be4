"""Tautomers: SMILES of one molecule in a bottle that differ in places of hydrogen and double bonds alone.

The law: two SMILES are tautomers if their standard InChIs are equal once enols are written as carbonyl compounds (as
aromatic enols where that makes a ring aromatic), enaminones as imines and nitroso compounds as oximes. Standard InChI
moves hydrogen between heteroatoms: pyrazoles, tetrazoles, purines, pyridones, amidines. So aldoses and ketoses, double
bonds that move along a chain, rings and chains, epimers, E/Z isomers and salts stay apart.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdMolHash

from chemspec.chem.molecules.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS

# Atoms a, b, c: the double bond between b and c goes between a and b, and a hydrogen of a to c.
_SHIFTS = (
    "[OX2H]-[C]=[C]-[C]=[O]",  # enol of a 1,3-dicarbonyl compound
    "[NX3;H1,H2]-[C]=[C]-[C]=[O]",  # enaminone
    "[OX2H]-[CX3;!$(C=O);!$(C([OH])=C[OH])]=[CX3;!$(C[OH])]",  # enol, but no enediol, which two ketones share
    "[CX4;!H0]-[N]=[O]",  # nitroso compound; its oxime has no stereochemistry to keep
)
# Whose enol may be aromatic; of a keto lactone or lactam that of the ketone.
_RING_KETONES = ("[CX4;R;!H0]@[C;R;!$(C@[#7,#8,#16])]=[O]", "[CX4;R;!H0]@[C;R]=[O]")
_PYRAZOLONE = "[nH;r5]:[c;r5]:[cH1;r5]:[c;r5]=[O]"  # InChI leaves the hydrogen at nitrogen
_ATOM = re.compile(r"Cl|Br|\[\d*([A-Z][a-z]?|[a-z][a-z]?)|[BCNOPSFIbcnops]")
MAX_SHIFTS = 6


def representatives(smiles: Iterable[str]) -> dict[str, str]:
    """Return for each canonical SMILES the first of them that is the same molecule or a tautomer of it."""
    texts = dict.fromkeys(smiles)
    chosen = {text: text for text in texts}
    for alike in _groups(texts, _elements):
        for candidates in _groups(alike, _skeleton):
            for tautomers in _groups(candidates, tautomer_key):
                chosen |= dict.fromkeys(tautomers, tautomers[0])
    return chosen


def _groups(texts: Iterable[str], key: Any) -> Iterator[list[str]]:
    """Yield texts of equal keys together, where there are several."""
    groups = defaultdict(list)
    for text in texts:
        groups[key(text)].append(text)
    return (group for group in groups.values() if len(group) > 1)


def _elements(smiles: str) -> str:
    return "".join(sorted((match[1] or match[0]).capitalize() for match in _ATOM.finditer(smiles)))


@lru_cache(maxsize=5000)
def _skeleton(smiles: str) -> str:
    """Return a text that isomers share whose atoms are bonded in the same way."""
    mol = mol_from_smiles(smiles)
    return smiles if mol is None else str(rdMolHash.MolHash(mol, rdMolHash.HashFunction.ElementGraph))


@lru_cache(maxsize=5000)
def tautomer_key(smiles: str) -> str:
    """Return a text that tautomers share; the SMILES itself if RDKit has no InChI for it."""
    mol = mol_from_smiles(smiles)
    if mol is None:
        return smiles
    with rdBase.BlockLogs():
        try:
            return str(Chem.MolToInchi(_written_as_ketone(Chem.RWMol(mol)))) or smiles  # type: ignore[no-untyped-call]
        except RDKIT_ERRORS:
            return smiles


def _written_as_ketone(mol: Any) -> Any:
    if pyrazolone := mol.GetSubstructMatch(fixed_pattern(_PYRAZOLONE)):
        Chem.Kekulize(mol, clearAromaticFlags=True)
        _shift(mol, *pyrazolone[:3])
    for _ in range(MAX_SHIFTS):
        match = next(filter(None, (mol.GetSubstructMatch(fixed_pattern(smarts)) for smarts in _SHIFTS)), ())
        if not match:
            break
        _shift(mol, *match[:3])
    for _ in range(MAX_SHIFTS):
        matches = [match for smarts in _RING_KETONES for match in mol.GetSubstructMatches(fixed_pattern(smarts))]
        for carbon, carbonyl, oxygen in matches:
            enol = Chem.RWMol(mol)
            _shift(enol, carbon, carbonyl, oxygen)
            if _aromatic_atoms(enol) > _aromatic_atoms(mol):
                mol = enol
                break
        else:
            break
    return mol


def _shift(mol: Any, first: int, middle: int, last: int) -> None:
    for pair, order in (((first, middle), Chem.BondType.DOUBLE), ((middle, last), Chem.BondType.SINGLE)):
        bond = mol.GetBondBetweenAtoms(*pair)
        bond.SetStereo(Chem.BondStereo.STEREONONE)
        bond.SetBondType(order)
    for index in (first, middle, last):
        atom = mol.GetAtomWithIdx(index)
        atom.SetNoImplicit(False)
        atom.SetNumExplicitHs(0)
        atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    Chem.SanitizeMol(mol)


def _aromatic_atoms(mol: Any) -> int:
    return sum(atom.GetIsAromatic() for atom in mol.GetAtoms())
