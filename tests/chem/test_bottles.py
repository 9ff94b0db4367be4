"""Precursors have no bare ions."""

from __future__ import annotations

import pytest
from helpers.case_tables import table

from chemspec import chem
from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.bottles import TABLE, as_bottled
from chemspec.chem.molecules.salts import charge_of


@pytest.mark.parametrize(("named", "bottled"), table("chem/bottles"))
def test_bare_ions_become_compounds(named: str, bottled: str) -> None:
    smiles = str(chem.canonical(named))
    assert as_bottled(smiles) == chem.canonical(bottled)
    assert as_bottled(as_bottled(smiles)) == as_bottled(smiles)
    assert not sum(map(charge_of, as_bottled(smiles).split(".")))


def test_every_compound_of_the_table_is_neutral() -> None:
    for ion, compound in read_asset_table(TABLE):
        assert charge_of(ion) and chem.is_valid(compound) and not sum(map(charge_of, compound.split("."))), ion
