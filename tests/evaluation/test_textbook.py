"""The README's five textbook reactions, forward and backward, with the shipped weights."""

from __future__ import annotations

import pytest
from case_tables import table

from chemspec import chem
from chemspec.engine.engine import Engine, installed_models
from chemspec.settings import DecodeSettings

# name, what is in the flask, main product
TEXTBOOK = table("evaluation/textbook")
PRECURSORS = [
    ("O=C(NCc1ccccc1)c1ccccc1", {"NCc1ccccc1.O=C(O)c1ccccc1", "NCc1ccccc1.O=C(Cl)c1ccccc1"}),
    ("CC(C)(C)OC(=O)NCc1ccccc1", {"CC(C)(C)OC(=O)OC(=O)OC(C)(C)C.NCc1ccccc1"}),
    ("c1ccc(-c2ccncc2)cc1", {"Brc1ccncc1.OB(O)c1ccccc1", "Brc1ccccc1.OB(O)c1ccncc1"}),
    ("O=C(O)c1ccc(Br)cc1", {"COC(=O)c1ccc(Br)cc1", "CCOC(=O)c1ccc(Br)cc1"}),
    ("c1ccc(CN2CCCCC2)cc1", {"C1CCNCC1.O=Cc1ccccc1", "BrCc1ccccc1.C1CCNCC1"}),
]


def _engine(name: str) -> Engine:
    if name not in {folder.name for folder in installed_models()}:
        pytest.skip(f"no {name} model in assets/models")
    return Engine.load(name, threads=1)


@pytest.mark.weights
def test_forward_is_right_at_first() -> None:
    results = _engine("forward").predict([flask for _, flask, _ in TEXTBOOK], DecodeSettings(n=5))
    for (name, _, product), result in zip(TEXTBOOK, results, strict=True):
        assert result.hypotheses[0].canonical == chem.canonical(product), name


@pytest.mark.weights
@pytest.mark.parametrize("name", ["retro", "retro-50k"])
def test_retro_has_a_plausible_set_among_five(name: str) -> None:
    results = _engine(name).predict([product for product, _ in PRECURSORS], DecodeSettings(n=5))
    for (product, sets), result in zip(PRECURSORS, results, strict=True):
        wanted = {chem.canonical(precursors) for precursors in sets}
        assert wanted & {answer.canonical for answer in result.hypotheses}, product
