"""Systematic names: those that are read are right, and all others are refused."""

from __future__ import annotations

import pytest
from case_tables import table
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

from chemspec import chem
from chemspec.chem.names import nomenclature, reagents

KNOWN = dict(table("chem/systematic_names"))


@pytest.mark.parametrize(("name", "smiles"), KNOWN.items())
def test_names_that_are_read_are_right(name: str, smiles: str) -> None:
    found = reagents.find_by_name(name)
    assert found is not None
    assert chem.canonical(found[0]) == chem.canonical(smiles)


@pytest.mark.parametrize("name", table("chem/uncertain_names"))
def test_what_is_not_certain_is_not_read(name: str) -> None:
    assert nomenclature.read(name) is None


def test_every_parent_has_its_formula_and_every_group_is_one() -> None:
    for line in nomenclature.TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            _, names, _, formula = line.split("\t")
            for name in names.split(" | "):
                assert CalcMolFormula(Chem.MolFromSmiles(nomenclature.read(name))) == formula, name
    for group in (*nomenclature.PREFIXES.values(), *nomenclature.SUFFIXES.values()):
        assert chem.is_valid(f"C{group}"), group


def test_many_building_blocks_can_be_named() -> None:
    """A group on a benzene that has one: each name is another molecule."""
    plain = ("fluoro", "chloro", "bromo", "iodo", "methyl", "methoxy", "nitro", "cyano", "trifluoromethyl")
    parents = ("aniline", "phenol", "benzaldehyde", "benzoic acid", "benzonitrile", "phenylboronic acid")
    one = {nomenclature.read(f"{k}-{group}{parent}") for parent in parents for group in plain for k in (2, 3, 4)}
    assert None not in one and len(one) == len(parents) * len(plain) * 3


@given(st.text(alphabet="abcdeilmnoprtuxy0123456789,-() ", max_size=30))
def test_no_text_raises(text: str) -> None:
    assert nomenclature.read(text) is None or chem.is_valid(str(nomenclature.read(text)))
