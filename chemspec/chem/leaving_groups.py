"""Name what the reactants of a mapped reaction lose, such as "bromide + boronic acid"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rdkit import Chem

from chemspec.chem.atom_maps import AtomMap
from chemspec.chem.parsing import mol_from_smiles

# What leaves, by its SMILES, as a word after "also as"; what is not here is only counted.
_LEAVING = {
    "Cl": "chloride", "Br": "bromide", "I": "iodide", "F": "fluoride", "CS(=O)(=O)O": "mesylate",
    "Cc1ccc(S(=O)(=O)O)cc1": "tosylate", "O=S(=O)(O)C(F)(F)F": "triflate", "OBO": "boronic acid",
    "CC1(C)OBOC1(C)C": "boronic ester", "C": "methyl", "CC": "ethyl", "CCC": "isopropyl", "CC(C)C": "tert-butyl",
    "CO": "methyl ester", "CCO": "ethyl ester", "Cc1ccccc1": "benzyl", "CC(=O)O": "anhydride", "CC=O": "acetyl",
    "COC": "MOM", "C1CCOCC1": "THP", "CC(C)(C)OC=O": "Boc", "O=COCc1ccccc1": "Cbz", "O=Cc1ccccc1": "benzoyl",
    "CCOC=O": "ethyl carbamate", "O=CC(F)(F)F": "trifluoroacetyl", "O=C(O)C(F)(F)F": "anhydride",
}  # fmt: skip
ACYL = ("CC(=O)O", "O=C(O)C(F)(F)F", "CO", "CCO")  # words of `_LEAVING` that mean an acyl group is bound to it
_METALS = {"Si": "silyl", "Sn": "stannane", "Zn": "zinc", "Mg": "Grignard", "Li": "lithium"}


def describe_leaving_groups(match: AtomMap, left: Any) -> str:
    """Return what the molecules that give atoms lose, in words; empty where there is no word for a part of it."""
    words = []
    for part in connected_groups(match.left.bonds, match.lost):
        mol = mol_from_smiles(Chem.MolFragmentToSmiles(left, part, isomericSmiles=False))
        plain = Chem.MolToSmiles(mol) if mol is not None else ""
        if plain in ("CCC", "CC(C)C") and not _is_branched(match, part):
            plain = ""
        if plain in ACYL and not _was_acyl(match, part):
            plain = ""
        metals = {left.GetAtomWithIdx(atom).GetSymbol() for atom in part} & set(_METALS)
        if plain == "O":
            words.append(_name_of_oxygen(match, part[0]))
        else:
            words.append(_METALS[min(metals)] if metals else _LEAVING.get(plain, ""))
    return " + ".join(sorted(words)) if all(words) else ""


def _is_branched(match: AtomMap, part: Sequence[int]) -> bool:
    """Return whether an alkyl group was bound by the atom in its middle, as isopropyl and tert-butyl are."""
    return any(
        set(match.left.bonds[atom]) - set(part) and len(set(match.left.bonds[atom]) & set(part)) > 1 for atom in part
    )


def _was_acyl(match: AtomMap, part: Sequence[int]) -> bool:
    """Return whether what leaves was bound to an acyl group, as in an anhydride or ester."""
    held = {far for atom in part for far in match.left.bonds[atom]} - set(part)
    return any(
        order == 2 and match.left.kinds[oxygen][0] == 8
        for atom in held
        for oxygen, order in match.left.bonds[atom].items()
    )


def connected_groups(bonds: Sequence[Iterable[int]], atoms: Sequence[int]) -> list[list[int]]:
    """Return atoms in groups that are bonded to each other."""
    left, pieces = set(atoms), []
    while left:
        piece = [left.pop()]
        for atom in piece:
            near = [far for far in bonds[atom] if far in left]
            left -= set(near)
            piece += near
        pieces.append(piece)
    return pieces


def _name_of_oxygen(match: AtomMap, oxygen: int) -> str:
    """Return what an oxygen that leaves alone was part of."""
    for near, order in match.left.bonds[oxygen].items():
        if match.left.kinds[near][0] != 6:
            return ""
        if order == 2:
            others = {match.left.kinds[far][0] for far in match.left.bonds[near] if far != oxygen}
            return "aldehyde or ketone" if others <= {1, 6} else ""
        if any(kind == 2 and match.left.kinds[far][0] == 8 for far, kind in match.left.bonds[near].items()):
            return "acid"
    return "alcohol"
