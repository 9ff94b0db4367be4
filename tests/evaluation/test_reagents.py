"""Sets of reagents: one text each, scored as sets and one by one, beside the most frequent ones of a change."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from benchmarks.reagent_baseline import FrequentSets, baseline
from hypothesis import given
from hypothesis import strategies as st

from chemspec.chem import canonical
from chemspec.chem.formats import Input, read_any
from chemspec.chem.salts import normal_form, other_reagents
from chemspec.data.settings import DataSettings
from chemspec.evaluation import accuracy

REAGENTS = ["CCN(CC)CC", "ClCCl", "[Na+]", "[OH-]", "C[C@H](N)c1ccccc1", "O", "C/C=C/C"]


@given(st.lists(st.sampled_from(REAGENTS), min_size=1), st.randoms(use_true_random=False))
def test_a_set_has_one_text_whatever_the_order_and_how_often(parts: list[str], random: Any) -> None:
    first = normal_form(".".join(parts))
    again = [*parts, *parts[:2]]
    random.shuffle(again)
    assert first == normal_form(".".join(again)) == normal_form(first or "")
    assert first and len(first.split(".")) == len(set(parts))
    assert "@" not in first and "/" not in first
    assert sorted(first.split(".")) == first.split(".")


def test_what_is_no_set_has_no_text() -> None:
    assert normal_form("CC.C((") is None
    assert normal_form("") is None


def test_reagents_are_what_the_core_leaves_over_however_it_is_spelled() -> None:
    assert other_reagents("OCC.CC(=O)O.O.O.[Na+]", "CCO.OC(C)=O") == "O.[Na+]"
    assert other_reagents("CCO", "OCC") == ""


def test_a_whole_reaction_is_one_query() -> None:
    read = read_any("OCC.C(=O)(C)Cl>ClCCl>C(C)OC(C)=O", task="reagents")
    assert isinstance(read, Input)
    left, right = read.smiles.split(">>")
    assert (left, right) == (canonical("CCO.CC(=O)Cl"), canonical("CCOC(C)=O"))
    assert "the agents are left out" in read.notes
    again = read_any(read.smiles, task="reagents")
    assert isinstance(again, Input) and again.smiles == read.smiles and not again.notes


def answers(*sets: str) -> dict[str, Any]:
    hypotheses = [{"canonical": one, "valid": True, "probability": 0.1, "smiles": one} for one in sets]
    return {"hypotheses": hypotheses, "status": "ok", "passes": 1, "seconds": 0.1}


def test_sets_are_compared_in_normal_form_and_reagents_one_by_one() -> None:
    results = [
        accuracy.normalise_result(one, "reagents")
        for one in (answers("O.[Na+]", "ClCCl.CCN(CC)CC.ClCCl"), answers("O", "C1CCOC1"))
    ]
    asked = [accuracy.KnownReaction("q", "CCN(CC)CC.ClCCl"), accuracy.KnownReaction("r", "C1CCOC1.O.[Li+].[OH-]")]
    measured = accuracy.score_predictions(asked, results)
    assert [measured["top"][k]["value"] for k in ("1", "2")] == [0, 0.5]
    found = accuracy.reagent_recall([one.answer for one in asked], [*map(accuracy.distinct_answers, results)])
    assert [found[k]["value"] for k in ("1", "2", "10")] == [1 / 6, 4 / 6, 4 / 6]


def test_the_most_frequent_sets_of_the_closest_change_come_first() -> None:
    frequent = FrequentSets()
    for reagents, times in (("A", 3), ("B", 2), ("C", 5)):
        for _ in range(times):
            frequent.add([("close", 1)] if reagents != "C" else [("close", 2)], reagents)
    assert frequent.propose([("close", 1)]) == ["A", "B", "C"]
    assert frequent.propose([("close", 9)], 2) == ["C", "A"]
    assert FrequentSets().propose([("close", 1)]) == []


def test_the_baseline_is_counted_on_other_products_than_it_is_asked_about(tmp_path: Path) -> None:
    def rows(count: int, solvent: str) -> list[dict[str, str]]:
        made = []
        for length in range(1, count + 1):
            core, product = f"{'C' * length}C(=O)Cl.CN", f"{'C' * length}C(=O)NC"
            text = {"core_reactants": core, "main_product": product, "mapped_core_rxn": ""}
            made.append({**text, "reactants_and_reagents": f"{core}.{solvent}.CCN(CC)CC"})
        return made

    def write(name: str, table: list[dict[str, str]]) -> Path:
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
        return tmp_path / name

    held = write("held.csv", rows(3, "O")[2:])
    training = write("train.csv", [*rows(8, "ClCCl"), *rows(3, "O")[2:] * 9])
    told = baseline(training, held, DataSettings(task="reagents"), every=1)
    assert (told["counted"], told["reactions"]) == (7, 1)
    assert told["top"]["10"]["value"] == 0  # nine times seen, but only with the held-out product
    assert told["recall"]["1"]["value"] == 0.5
