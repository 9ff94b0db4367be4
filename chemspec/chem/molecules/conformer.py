"""Compute a likely conformer of a molecule; for a process that may be ended (`chemspec.chem.molecules.sandbox`)."""

import time
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdDistGeom, rdForceFieldHelpers
from rdkit.Geometry import Point3D

from chemspec.chem.molecules.rdkit_tasks import from_smiles

SECONDS = 3.0  # seconds for all components together, after which nothing is begun
MAX_SECONDS = 4.0  # after which the process that computes is ended
SEED = 7
GAP = 2.5  # Å between components
STEPS = 20  # steps of the optimizer between two looks at the clock


def conformer(smiles: str) -> str:
    """Return every component side by side with all hydrogens as a mol block, by ETKDG, then MMFF94 or UFF.

    Where the molecule has no parameters of UFF either, it stays as embedded. Raises TimeoutError where it is not.
    """
    whole = from_smiles(smiles)
    for atom in whole.GetAtoms():
        atom.SetAtomMapNum(0)
    end = time.process_time() + SECONDS
    parts = []
    with rdBase.BlockLogs():
        for fragment in Chem.GetMolFrags(whole, asMols=True):
            part = Chem.AddHs(fragment)
            _embed(part, end)
            _relax(part, end)
            parts.append(part)
        return str(Chem.MolToMolBlock(_side_by_side(parts)))


def _embed(mol: Any, end: float) -> None:
    large = mol.GetNumHeavyAtoms() > 80  # a start by chance is faster for these
    for by_chance in (large, not large):
        params: Any = rdDistGeom.ETKDGv3()
        params.randomSeed = SEED
        params.useRandomCoords = by_chance
        params.timeout = 3  # whole seconds on the clock
        if time.process_time() < end and rdDistGeom.EmbedMolecule(mol, params) == 0:
            return
    raise TimeoutError


def _relax(mol: Any, end: float) -> None:
    """Go downhill in energy as far as time allows."""
    if time.process_time() > end:
        return
    if rdForceFieldHelpers.MMFFHasAllMoleculeParams(mol):
        field = rdForceFieldHelpers.MMFFGetMoleculeForceField(mol, rdForceFieldHelpers.MMFFGetMoleculeProperties(mol))
    elif rdForceFieldHelpers.UFFHasAllMoleculeParams(mol):
        field = rdForceFieldHelpers.UFFGetMoleculeForceField(mol)
    else:
        return  # the embedding's shape is good enough to look at
    field.Initialize()
    while time.process_time() < end and field.Minimize(maxIts=STEPS):
        pass


def _side_by_side(parts: list[Any]) -> Any:
    whole, right = Chem.Mol(), 0.0
    for part in parts:
        positions = part.GetConformer().GetPositions()  # (atoms, 3), in Å
        left, middle = positions[:, 0].min(), (positions.max(axis=0) + positions.min(axis=0)) / 2
        offset = Point3D(right - left, -middle[1], -middle[2])
        whole = Chem.CombineMols(whole, part, offset)
        right += positions[:, 0].max() - left + GAP
    return whole
