"""Stereochemistry that a product leaves open: E/Z of its double bonds, and stereocentres."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from rdkit import Chem, rdBase

import chemspec.chem as chem
from chemspec.chem.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.strategy import Strategy

NOT_SET = "E/Z not set"
_WORDS = {Chem.BondStereo.STEREOE: "E", Chem.BondStereo.STEREOZ: "Z"}
# Nitrogen that inverts, and of imines, amidines and guanidines whose E and Z are not told apart.
_LOOSE = "[$([NX3;+0]),$([NX2;H1]=C),$([NX2;!$(N-[N,O])]=C-[NX3])]"
_CENTRE, _DOUBLE_BOND = Chem.StereoType.Atom_Tetrahedral, Chem.StereoType.Bond_Double


def drop_geometry(smiles: str) -> str:
    """Return the canonical SMILES without E and Z, and with its stereocentres."""
    flat = re.sub(r"[/\\]", "", smiles)
    return smiles if flat == smiles else chem.canonical(flat) or smiles


@lru_cache(maxsize=4000)
def geometry(smiles: str) -> str:
    """Return E or Z of the double bonds that have one, in an order that isomers share; may be empty."""
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
        ranks = list(Chem.CanonicalRankAtoms(mol, includeChirality=False))
        bonds = [(sorted(ranks[atom] for atom in atoms), atoms) for kind, atoms, _ in _elements(mol) if kind != _CENTRE]
        words = [_WORDS.get(mol.GetBondBetweenAtoms(*atoms).GetStereo(), "?") for _, atoms in sorted(bonds)]
    return NOT_SET if set(words) == {"?"} else ",".join(words)


def open_stereo(reactants: str, product: str, step: Strategy) -> tuple[int, int]:
    """Return how many double bonds and stereocentres a reaction makes without setting them.

    What the reactants leave open themselves does not count, nor do centres that the product loses (`Strategy.lost`).
    """
    with rdBase.BlockLogs():
        before = {frozenset(atoms) for _, atoms, is_open in _elements(mol_from_smiles(reactants)) if is_open}
        target = mol_from_smiles(product)
        loose = {hit[0] for hit in target.GetSubstructMatches(fixed_pattern(_LOOSE))}
        kinds = [
            kind
            for kind, atoms, is_open in _elements(target)
            if is_open
            and loose.isdisjoint(atoms)
            and frozenset(step.origin[atom] for atom in atoms) not in before
            and atoms[0] not in step.lost
        ]
    return kinds.count(_DOUBLE_BOND), kinds.count(_CENTRE)


def _elements(mol: Any) -> Iterator[tuple[Any, tuple[int, ...], bool]]:
    """Yield double bonds and centres that have a stereochemistry: kind, atoms, and whether it is not set.

    Cumulated double bonds (azides, isocyanates, allenes) have no E and Z, though RDKit lists them.
    """
    for item in Chem.FindPotentialStereo(mol):
        atoms: tuple[int, ...] = (item.centeredOn,)
        if item.type == _DOUBLE_BOND:
            bond = mol.GetBondWithIdx(item.centeredOn)
            atoms = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            if any(mol.GetAtomWithIdx(atom).GetHybridization() == Chem.HybridizationType.SP for atom in atoms):
                continue
        if item.type in (_CENTRE, _DOUBLE_BOND):
            yield item.type, atoms, item.specified == Chem.StereoSpecified.Unspecified
