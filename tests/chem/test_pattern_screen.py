"""Patterns that are not matched for want of an element: never one that would fit."""

from __future__ import annotations

import pytest
from helpers.case_tables import table
from rdkit import Chem

from chemspec.chem.molecules.parsing import fixed_pattern
from chemspec.chem.molecules.pattern_screen import allowed_types, atom_types, may_match
from chemspec.chem.reactions import step_class


def test_no_pattern_of_a_class_is_left_out_where_it_fits() -> None:
    mols = [Chem.MolFromSmiles(row[side]) for row in table("chem/textbook_maps") for side in (0, 1)]
    skipped = 0
    for pattern in {p for rule in step_class.load_rules() for p in (rule.product, *rule.reactants)}:
        for mol in mols:
            if not may_match(pattern, atom_types(mol)):
                skipped += 1
                assert not mol.HasSubstructMatch(pattern)
    assert skipped > 100


@pytest.mark.parametrize(
    ("smarts", "types"),
    [
        ("[C:1]", {6}),
        ("[c,n]", {1006, 1007}),
        ("[#6;X4]", {6, 1006}),
        ("[NX3;H1,H2]", {7}),
        ("[Pd,Ni;+0]", {46, 1046, 28, 1028}),
        ("[!#6]", None),
        ("[C,$([NX3])]", None),
        ("*", None),
        ("a", None),
    ],
)
def test_types_of_atoms(smarts: str, types: set[int] | None) -> None:
    assert allowed_types(fixed_pattern(smarts)) == (types,)
