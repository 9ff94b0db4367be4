"""Stereochemistry that a product leaves open: E/Z of its double bonds, and stereocentres."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from rdkit import Chem, rdBase

import chemspec.chem as chem
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.strategy import Strategy

NOT_SET = "E/Z not set"
_GEOMETRY = {Chem.BondStereo.STEREOE: "E", Chem.BondStereo.STEREOZ: "Z"}
_GAPS = Chem.StereoSpecified.Unspecified
_CENTRE, _DOUBLE_BOND = Chem.StereoType.Atom_Tetrahedral, Chem.StereoType.Bond_Double


def drop_geometry(smiles: str) -> str:
    """Return the canonical SMILES without E and Z, and with its stereocentres."""
    flat = re.sub(r"[/\\]", "", smiles)
    return smiles if flat == smiles else chem.canonical(flat) or smiles


@lru_cache(maxsize=4000)
def geometry(smiles: str) -> str:
    """Return E or Z of the double bonds that have one, in an order that is the same for all isomers; may be empty."""
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
        flat = Chem.Mol(mol)
        for bond in flat.GetBonds():
            bond.SetStereo(Chem.BondStereo.STEREONONE)
            bond.SetBondDir(Chem.BondDir.NONE)
        ranks = list(Chem.CanonicalRankAtoms(flat))
        bonds = [mol.GetBondWithIdx(item.centeredOn) for item in _elements(mol) if item.type == _DOUBLE_BOND]
        bonds.sort(key=lambda bond: sorted((ranks[bond.GetBeginAtomIdx()], ranks[bond.GetEndAtomIdx()])))
        words = [_GEOMETRY.get(bond.GetStereo(), NOT_SET) for bond in bonds]
    return NOT_SET if set(words) == {NOT_SET} else ",".join(word.replace(NOT_SET, "?") for word in words)


def open_stereo(reactants: str, product: str, step: Strategy) -> tuple[int, int]:
    """Return how many double bonds and stereocentres a reaction makes without setting them.

    What the reactants leave open themselves does not count, nor do centres that the product loses (`Strategy.lost`).

    Args:
        reactants: SMILES.
        product: SMILES.
        step: what the reaction does.
    """
    with rdBase.BlockLogs():
        left, right = mol_from_smiles(reactants), mol_from_smiles(product)
        before = {_atoms(left, item) for item in _elements(left) if item.specified == _GAPS}
        gaps = [item for item in _elements(right) if item.specified == _GAPS]
        lost = set(step.lost)
        new = [
            item.type
            for item in gaps
            if not _atoms(right, item) <= lost
            and frozenset(step.origin[atom] for atom in _atoms(right, item)) not in before
        ]
    return new.count(_DOUBLE_BOND), new.count(_CENTRE)


def _elements(mol: Any) -> Iterator[Any]:
    return (item for item in Chem.FindPotentialStereo(mol) if item.type in (_CENTRE, _DOUBLE_BOND))


def _atoms(mol: Any, item: Any) -> frozenset[int]:
    if item.type == _CENTRE:
        return frozenset([item.centeredOn])
    bond = mol.GetBondWithIdx(item.centeredOn)
    return frozenset((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
