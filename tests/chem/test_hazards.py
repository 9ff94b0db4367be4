"""Hazards that structures show: what is told of dangerous mixtures, and nothing of harmless ones."""

from __future__ import annotations

import pytest
from case_tables import table

from chemspec.chem import flask_check
from chemspec.chem.parsing import mol_from_smarts


@pytest.mark.parametrize(("left", "right", "words"), table("chem/hazards"))
def test_what_is_the_matter_is_told(left: str, right: str, words: str) -> None:
    assert any(words in sentence for sentence in flask_check.hazards(left, right)), flask_check.hazards(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("CC(=O)Cl.NCc1ccccc1.CCN(CC)CC.ClCCl", "CC(=O)NCc1ccccc1"),
        ("N#Cc1ccccc1.[Na+].[OH-].O", "O=C(O)c1ccccc1"),  # a nitrile is no cyanide
        ("O=[N+]([O-])c1ccccc1.[Fe].[NH4+].[Cl-]", "Nc1ccccc1"),
        ("CC(=O)OC(C)=O.OCc1ccccc1", "CC(=O)OCc1ccccc1"),
        ("COc1ccc(Br)cc1.OB(O)c1ccccc1.[Pd].[K+].[K+].O=C([O-])[O-]", "COc1ccc(-c2ccccc2)cc1"),
    ],
)
def test_nothing_is_told_of_harmless_mixtures(left: str, right: str) -> None:
    assert flask_check.hazards(left, right) == ()


def test_every_pattern_can_be_read() -> None:
    parts = [smarts for patterns, _ in flask_check._hazard_rows() for pattern in patterns for smarts in pattern]
    assert [smarts for smarts in parts if mol_from_smarts(smarts) is None] == []
