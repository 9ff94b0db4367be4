"""2-D coordinates: molecules that RDKit's own layout breaks are drawn all the same."""

from __future__ import annotations

from rdkit.Chem import rdDepictor

from chemspec.chem.molecules import layout
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.depict import schemes
from chemspec.depict.molecules import Depiction

BRIDGED = "c1cccc2cc3ccccc(cc1)ccccc-3c2"  # two bonded atoms of RDKit's layout are at the same coordinates


def test_bonds_of_length_zero_are_laid_out_anew() -> None:
    mol = mol_from_smiles(BRIDGED)
    rdDepictor.Compute2DCoords(mol)
    assert layout.shortest_bond(mol) < 1e-3
    layout.add_layout(mol)
    assert layout.shortest_bond(mol) > 0.3


def test_coordinates_that_are_there_stay() -> None:
    mol = mol_from_smiles("CCO")
    rdDepictor.Compute2DCoords(mol)
    before = mol.GetConformer().GetPositions().tolist()
    mol.GetConformer().SetAtomPosition(0, (9.0, 9.0, 0.0))
    layout.add_layout(mol)
    assert mol.GetConformer().GetPositions().tolist() == [[9.0, 9.0, 0.0], *before[1:]]


def test_every_drawing_shows_a_bridged_ring() -> None:
    assert "<svg" in Depiction(BRIDGED).svg
    assert "<svg" in schemes.scheme_to_svg(BRIDGED, "CCO", None)
    assert schemes.scheme_to_png("CCO", BRIDGED, None).startswith(b"\x89PNG")
    assert Depiction(BRIDGED).png().startswith(b"\x89PNG")
