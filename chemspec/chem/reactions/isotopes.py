"""Isotope labels: taken off before a model reads a query, and put back into its answers by the atom map.

Models hardly saw labels, and read CD3 as CF3. A label follows its heavy atom; deuterium and tritium follow the carbon
atom that they are on, as far as it has hydrogen in the answer. Hydrogen on heteroatoms exchanges and gets no label.
In a product hydrogen that a carbon atom gained is labelled if the flask has its source so: a labelled hydride, D2, or
without a plain hydride D2O and deuterated alcohols.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rdkit import Chem, rdBase

from chemspec.chem.molecules.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.molecules.query import ARROW, canonical
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS
from chemspec.chem.reactions.atom_maps import map_atoms

SECONDS = 1.0  # limit of processor time for the map of one answer
NOTE = "isotope labels taken off for the model and put back by the atom map"
_LABEL = re.compile(r"\[\d+[A-Za-z]|\[D")
_HYDRIDE = "[$([H][B,Al,Si,Sn,Zn,Zr,Na,Li,K,Ca]),$([H][H]),$([H-])]"
_PROTIC = "[H][$([OX2,OX1,OX3+]),$([F,Cl,Br,I])]"


@dataclass(frozen=True)
class Label:
    """Label of a heavy atom: its isotope, and the isotopes of the hydrogen atoms on it."""

    isotope: int = 0
    hydrogens: tuple[int, ...] = ()


def has_labels(smiles: str) -> bool:
    """Return whether a SMILES has isotope labels."""
    return bool(_LABEL.search(smiles))


def strip_labels(smiles: str) -> str:
    """Return the canonical SMILES of a molecule, mixture or reaction without labels; as it is if it has none."""
    if not has_labels(smiles):
        return smiles
    return ARROW.join(_separate(side)[0] if side else side for side in smiles.split(ARROW))


@lru_cache(maxsize=1000)
def _separate(smiles: str) -> tuple[str, tuple[Label, ...]]:
    """Return the canonical SMILES without labels, and the label of each of its atoms; as it is if it is unreadable."""
    mol = mol_from_smiles(smiles)
    if mol is None:
        return smiles, ()
    mol = Chem.Mol(mol)
    labels = {}
    for atom in mol.GetAtoms():
        hydrogens = [near.GetIsotope() for near in atom.GetNeighbors() if near.GetSymbol() == "H" and near.GetIsotope()]
        labels[atom.GetIdx()] = Label(atom.GetIsotope(), tuple(sorted(hydrogens)))
        atom.SetIntProp("labelled", atom.GetIdx())
    for atom in mol.GetAtoms():
        atom.SetIsotope(0)
    with rdBase.BlockLogs():
        try:
            mol = Chem.RemoveHs(mol)
            for _ in range(3):  # a stereocentre that its label made is gone, which changes the order of atoms
                Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
                text = str(Chem.MolToSmiles(mol))
                order = [*mol.GetPropsAsDict(includePrivate=True, includeComputed=True)["_smilesAtomOutputOrder"]]
                numbers = [mol.GetAtomWithIdx(index).GetIntProp("labelled") for index in order]
                if text == canonical(text):
                    return text, tuple(labels[number] for number in numbers)
                mol = Chem.Mol(mol_from_smiles(text))
                for atom, number in zip(mol.GetAtoms(), numbers, strict=True):
                    atom.SetIntProp("labelled", number)
        except RDKIT_ERRORS:
            pass
    return smiles, ()


def put_labels_back(query: str, answer: str, *, retro: bool) -> str:
    """Return an answer to a query without its labels as canonical SMILES with labels; as it is where none can be put.

    Both are canonical SMILES of molecules. `retro`: the query is the product of the answer.
    """
    plain, labels = _separate(query)
    match = map_atoms(*((answer, plain) if retro else (plain, answer)), seconds=SECONDS) if labels else None
    if match is None:
        return answer
    placed: dict[int, Label] = {}
    for atom, origin in enumerate(match.origin):
        source, target = (atom, origin) if retro else (origin, atom)
        if origin >= 0 and labels[source] != Label():
            placed[target] = labels[source]
    if retro:
        placed |= _on_equivalent_atoms(answer, placed, {origin for origin in match.origin if origin >= 0})
    elif isotope := _hydrogen_source(query):
        for atom, origin in enumerate(match.origin):
            gained = match.right.kinds[atom][4] - match.left.kinds[origin][4] if origin >= 0 else 0
            if gained > 0 and match.right.kinds[atom][0] == 6:
                label = placed.get(atom, Label())
                placed[atom] = Label(label.isotope, (*label.hydrogens, *(isotope,) * gained))
    return _add_labels(answer, placed)


def _on_equivalent_atoms(smiles: str, placed: dict[int, Label], used: set[int]) -> dict[int, Label]:
    """Return the labels of atoms that leave and are equivalent to a labelled one, as of dimethyl sulfate."""
    mol = mol_from_smiles(smiles)
    ranks, molecules = [*Chem.CanonicalRankAtoms(mol, breakTies=False)], Chem.GetMolFrags(mol)
    return {
        other: label
        for atom, label in placed.items()
        for other in next(molecule for molecule in molecules if atom in molecule)
        if ranks[other] == ranks[atom] and other not in used
    }


def _hydrogen_source(flask: str) -> int:
    """Return the isotope of the hydrogen that a flask adds to carbon; 0 for plain hydrogen."""
    with rdBase.BlockLogs():
        mol = Chem.AddHs(mol_from_smiles(flask))
    hydrides, protic = (
        {mol.GetAtomWithIdx(match[0]).GetIsotope() for match in mol.GetSubstructMatches(fixed_pattern(smarts))}
        for smarts in (_HYDRIDE, _PROTIC)
    )
    return max(hydrides or protic, default=0)


def _add_labels(smiles: str, placed: dict[int, Label]) -> str:
    mol: Any = Chem.RWMol(mol_from_smiles(smiles))
    on_carbon = [
        index for index, label in placed.items() if label.hydrogens and mol.GetAtomWithIdx(index).GetSymbol() == "C"
    ]
    with rdBase.BlockLogs():
        try:
            mol = Chem.RWMol(Chem.AddHs(mol, onlyOnAtoms=on_carbon))
            for index, label in placed.items():
                atom = mol.GetAtomWithIdx(index)
                atom.SetIsotope(label.isotope)
                if index in on_carbon:
                    free = [near for near in atom.GetNeighbors() if near.GetSymbol() == "H" and not near.GetIsotope()]
                    for hydrogen, isotope in zip(free, label.hydrogens, strict=False):
                        hydrogen.SetIsotope(isotope)
            text = str(Chem.MolToSmiles(Chem.RemoveHs(mol)))
        except RDKIT_ERRORS:
            return smiles
    return canonical(text) or smiles
