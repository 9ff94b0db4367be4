"""Tautomers are one molecule; what a chemist would order apart is not."""

from __future__ import annotations

import pytest
from helpers.case_tables import table

from chemspec import chem
from chemspec.chem.molecules.tautomers import representatives, tautomer_key


@pytest.mark.parametrize(("name", "first", "second", "same"), table("chem/tautomers"))
def test_tautomers_have_one_representative(name: str, first: str, second: str, same: bool) -> None:
    texts = [str(chem.canonical(text)) for text in (first, second)]
    assert representatives(texts) == {texts[0]: texts[0], texts[1]: texts[0 if same else 1]}, name
    both = [f"{text}.CCO" for text in texts]
    assert len(set(representatives(both).values())) == (1 if same else 2), f"{name} beside another molecule"


def test_what_cannot_be_read_is_itself() -> None:
    assert representatives([]) == {} and representatives(["x", "CC"]) == {"x": "x", "CC": "CC"}
    assert tautomer_key("no molecule") == "no molecule"
