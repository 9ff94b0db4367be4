"""Pairs of an inventory: who may react with whom, what counts as a product, and in which order."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import pytest

from chemspec import chem
from chemspec.plan import cupboard
from chemspec.plan.cupboard import Bottle
from chemspec.settings import DecodeSettings
from chemspec.stock.lists import Stock
from chemspec.stock.offers import price_list_from_rows
from chemspec.types import DecodeResult, Hypothesis

ROWS = [
    ["name", "shelf", "amount"],
    ["acetic acid", "A1", "1 L"],
    ["benzoic acid", "A2", "40 g"],
    ["aniline", "B1", "5 g"],
    ["glycine", "B2", "5 g"],
    ["ethylenediamine", "B3", "5 g"],
    ["acetamide", "B4", "5 g"],
    ["phenylboronic acid", "C1", "5 g"],
    ["4-bromoanisole", "C2", ""],
    ["ethanol", "", "1 L"],
]
STOCK = Stock({}, price_list_from_rows(ROWS, "lab.csv").offers)
AMIDE = cupboard.kinds()["amide"]


class Fake:
    """A forward model with written answers; every other flask gives methane."""

    def __init__(self, answers: dict[str, tuple[str, float]]) -> None:
        self.answers, self.asked = answers, [""] * 0

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        self.asked += queries
        return [self._answer(query) for query in queries]

    def _answer(self, query: str) -> DecodeResult:
        smiles, p = next((each for part, each in self.answers.items() if query.startswith(part)), ("C", 0.9))
        return DecodeResult(query, "ok", "", (Hypothesis(smiles, smiles, True, (), (), -0.1, p, p),))


def test_every_kind_is_one_of_the_classes_and_its_reagents_can_be_read() -> None:
    from chemspec.asset_files import read_asset_table
    from chemspec.chem.reactions.step_class import FOLDER

    named = {row[1] for row in read_asset_table(FOLDER / "reaction_classes.tsv")}
    for kind in cupboard.kinds().values():
        assert any(kind.step in name for name in named), kind.name
        assert chem.is_valid(kind.reagents) and all(pattern.GetNumAtoms() for pattern in kind.patterns)
        assert cupboard.find_kind(kind.name) is cupboard.find_kind(kind.name.upper()) is kind
    assert cupboard.find_kind("triazole").name == "click" and cupboard.find_kind("suz").name == "suzuki"
    for text in ("", "distillation"):
        with pytest.raises(ValueError, match="choose one of amide, acid chloride"):
            cupboard.find_kind(text)


def test_what_is_on_a_shelf_is_paired_where_it_has_one_place_to_react() -> None:
    have = cupboard.bottles(STOCK)
    assert len(have) == 8, "ethanol has no shelf"
    acids, amines = cupboard.partners(AMIDE, have)
    assert [bottle.shelf for bottle in acids] == ["A1 · 1 L", "A2 · 40 g"]
    assert [bottle.shelf for bottle in amines] == ["B1 · 5 g"], "glycine is both, ethylenediamine twice, an amide none"
    counts = {kind.name: pairs for kind, _, _, pairs in cupboard.count_pairs(have)}
    assert counts == {"amide": 2, "buchwald": 2, "suzuki": 1}
    assert cupboard.find_pairs(AMIDE, have, "CC(=O)O") == [(acids[0], amines[0])]
    assert cupboard.bottles(Stock({}, price_list_from_rows([["smiles", "price"], ["CCO", "1"]], "a.csv").offers))


def test_more_pairs_than_wanted_are_drawn_alike_each_time() -> None:
    pairs = [(Bottle(f"{'C' * k}", ""), Bottle("N", "")) for k in range(1, 50)]
    assert cupboard.choose_pairs(pairs, 0) == cupboard.choose_pairs(pairs, 49) == pairs
    first, second = cupboard.choose_pairs(pairs, 5), cupboard.choose_pairs(pairs, 5)
    assert first == second and len({*first}) == 5


def test_a_product_counts_if_it_is_of_the_kind_and_the_likeliest_comes_first() -> None:
    have = cupboard.bottles(STOCK)
    pairs = cupboard.find_pairs(AMIDE, have)
    forward = Fake({"CC(=O)O.Nc": ("CC(=O)Nc1ccccc1", 0.6), "O=C(O)c1ccccc1.Nc": ("O=C(Nc1ccccc1)c1ccccc1", 0.9)})
    made = cupboard.make(AMIDE, pairs, forward, STOCK)
    assert [(item.product, item.probability) for item in made] == [
        ("O=C(Nc1ccccc1)c1ccccc1", 0.9),
        ("CC(=O)Nc1ccccc1", 0.6),
    ]
    assert forward.asked[0] == f"CC(=O)O.Nc1ccccc1.{AMIDE.reagents}" == made[1].flask
    assert not any(item.mark or item.problems for item in made)
    assert not cupboard.make(AMIDE, pairs, Fake({}), STOCK), "methane is no amide"
    assert not cupboard.make(AMIDE, pairs, Fake({"": ("CC(=O)O", 0.9)}), STOCK), "nothing new"
    rows = list(csv.DictReader(io.StringIO(cupboard.rows_as_csv(cupboard.made_rows(made)))))
    assert rows[0]["places"] == "A2 · 40 g + B1 · 5 g" and rows[0]["added"] == "HATU, DMF, DIPEA"
    assert cupboard.rows_as_csv([]) == "product\n"
