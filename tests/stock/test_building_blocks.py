"""Building blocks that are sold, and intermediates of patents."""

from __future__ import annotations

import pytest
from helpers.case_tables import table

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import mol_from_smarts
from chemspec.stock.building_blocks import FOLDER, MAX_ATOMS, why_intermediate


@pytest.mark.parametrize(("smiles", "reason"), table("stock/building_blocks"))
def test_an_intermediate_is_large_or_has_an_unusual_group(smiles: str, reason: str) -> None:
    said = why_intermediate(smiles)
    assert (reason in said) if reason else said == ""


def test_size_counts_the_largest_part_alone() -> None:
    assert not why_intermediate("C" * MAX_ATOMS) and not why_intermediate(f"{'C' * MAX_ATOMS}.[Na+].Cl.Cl")
    assert why_intermediate("C" * (MAX_ATOMS + 1)) == f"{MAX_ATOMS + 1} heavy atoms"


def test_every_pattern_of_the_table_can_be_read() -> None:
    for name, smarts, most in read_asset_table(FOLDER / "protecting_groups.tsv"):
        assert mol_from_smarts(smarts) is not None and name and 0 <= int(most) < MAX_ATOMS
