"""Sets of reagents: an ion is written once, and stands in a flask as often as its salt needs it."""

from __future__ import annotations

import pytest

from chemspec.chem.salts import balance_charges, normal_form


@pytest.mark.parametrize(
    ("reagents", "whole"),
    [
        ("", ""),
        ("CCO.Cl", "CCO.Cl"),
        ("[Na+].[OH-]", "[Na+].[OH-]"),
        ("CCO.O=C([O-])[O-].[K+]", "CCO.O=C([O-])[O-].[K+].[K+]"),
        ("CC(=O)[O-].[Pd+2]", "CC(=O)[O-].CC(=O)[O-].[Pd+2]"),
        ("O=C([O-])[O-].[K+].[Na+].[OH-]", "O=C([O-])[O-].[K+].[K+].[Na+].[OH-]"),
        ("[Na+]", "[Na+]"),
        ("O=P([O-])([O-])[O-].[Ca+2]", "O=P([O-])([O-])[O-].[Ca+2]"),
    ],
)
def test_ions_stand_as_often_as_their_charges_need(reagents: str, whole: str) -> None:
    assert balance_charges(reagents) == whole
    assert normal_form(whole) == normal_form(reagents)
