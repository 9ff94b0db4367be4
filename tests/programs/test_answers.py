"""Round trips, kinds of wrong answers and the baseline of reagents, on answers made up for it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from helpers.small import tiny_folder
from programs import roundtrip
from programs.familiarity import training_statistics
from programs.reagent_baseline import FrequentSets, baseline
from programs.trust import count_by_band
from programs.wrong_answers import EMPTY, FAULTY, OTHER, classify_error, count_error_kinds

from chemspec.data.settings import DataSettings
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import KnownReaction
from chemspec.tokenizer import SPECIALS


def hypothesis(text: str, probability: float = 0.5, *, valid: bool = True) -> dict[str, Any]:
    canonical = text if valid else ""
    return {"smiles": text, "canonical": canonical, "valid": valid, "probability": probability, "log_prob": -1.0}


def answers(*texts: str) -> dict[str, Any]:
    return {"hypotheses": [hypothesis(text) for text in texts]}


def test_shares_count_answers_and_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.load(tiny_folder(tmp_path / "forward", task="forward"), threads=1)
    says = {"C.N": "CN", "C.C": "CC", "O": "", "CN.O": "CN", "N.O": "NO"}

    def told(_: Any, asked: list[KnownReaction], *rest: Any, **more: Any) -> list[dict[str, Any]]:
        assert len(asked) == len({one.query for one in asked})  # each set is asked once
        return [answers(*([says[one.query]] if says[one.query] else [])) for one in asked]

    monkeypatch.setattr(roundtrip, "predict_to_file", told)
    asked = [KnownReaction("CN", "C.N"), KnownReaction("NO", "N.O")]
    results = [answers("C.C", "C.N", "C.N", "CN.O"), answers("C.N", "O")]
    found = roundtrip.round_trip(engine, asked, results, tmp_path / "a.jsonl", most=3)
    assert {k: one["value"] for k, one in found["kept"].items()} == {"1": 0.0, "2": 1 / 4, "3": 2 / 5}
    assert {k: one["value"] for k, one in found["found"].items()} == {"1": 0, "2": 0.5, "3": 0.5}
    assert found["truth"]["value"] == 1
    helpful = Engine.load(tiny_folder(tmp_path / "reagents", task="reagents"), threads=1)
    says |= {"C.C>>CN": "O", "C.C.O": "CN", "C.N>>CN": "S", "C.N.S": "", "CN.O>>CN": "", "N.O>>NO": "S", "N.O.S": "C"}
    says |= {"C.N>>NO": "O", "C.N.O": "NO", "O>>NO": "", "C.N": "CN"}
    both = roundtrip.round_trip(engine, asked, results, tmp_path / "a.jsonl", reagents=helpful, most=3)
    assert {name: both[name] for name in found} == found
    assert {k: one["value"] for k, one in both["with_reagents"]["kept"].items()} == {"1": 1, "2": 3 / 4, "3": 4 / 5}
    assert both["with_reagents"]["truth"]["value"] == 1, "what leads back alone does so whatever is proposed"
    assert len(roundtrip.rows(both)) == 2 * len(roundtrip.rows(found))
    with pytest.raises(ValueError, match="needs a reagents model"):
        roundtrip.round_trip(engine, asked, results, tmp_path / "c.jsonl", reagents=engine)
    retro = Engine.load(tiny_folder(tmp_path / "retro"), threads=1)
    with pytest.raises(ValueError, match="needs a forward model"):
        roundtrip.round_trip(retro, asked, results, tmp_path / "b.jsonl")


@pytest.mark.parametrize(
    ("task", "query", "truth", "answer", "kind"),
    [
        ("retro", "CC(=O)NC", "CC(=O)O.CN", "CNC(C)=O", "returns the query"),
        ("forward", "CN.CC(=O)O", "CNC(C)=O", "CN", "returns the query"),
        ("retro", "CO", "C[C@H](N)O", "C[C@@H](N)O", "but for stereochemistry"),
        ("retro", "CC(=O)NCCC", "CC(=O)Cl.CCCCN", "CC(=O)O.CCCCN", "other partner"),
        ("forward", "CCO", "CCCO", "CC(C)O", "an isomer"),
        ("forward", "CCO", "CCO", "CCCl", "cannot supply"),
        ("forward", "CCO.Br", "CCBr", "CC", OTHER),
        ("reagents", "CCO>>CCBr", "Br.O", "Br", "one reagent is missing"),
        ("reagents", "CCO>>CCBr", "Br", "Br.O", "one reagent too many"),
        ("reagents", "CCO>>CCBr", "Br.CO", "Br.O", "one reagent is another"),
        ("reagents", "CCO>>CCBr", "Br.CO", "BrBr.O", "no reagent in common"),
        ("reagents", "CCO>>CCBr", "Br.CO.CN", "Br.O", "several"),
    ],
)
def test_faults_are_told_apart(task: Any, query: str, truth: str, answer: str, kind: str) -> None:
    assert kind in classify_error(query, truth, [hypothesis(answer)], task)


def test_the_surest_example_of_each_kind() -> None:
    asked = [("CCO.Br", "CCBr")] * 3 + [("C", "C"), ("C", "N"), ("C", "N")]
    results = [{"hypotheses": [hypothesis("CC", p)] if p else []} for p in (0.2, 0.9, 0.3)] + [
        answers("C"),
        {"hypotheses": [hypothesis("C(", valid=False)]},
        {"hypotheses": []},
    ]
    found = count_error_kinds(asked, results, "forward")
    assert {kind: one["count"] for kind, one in found.items()} == {OTHER: 3, FAULTY: 1, EMPTY: 1}
    assert found[OTHER]["example"]["probability"] == 0.9
    assert found[FAULTY]["example"]["answer"] == "C("


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


def test_training_queries_are_counted_once_each() -> None:
    queries = ["CCO"] * 30 + ["C[Si]C"] * 3 + ["C" * 50, "not a SMILES"]
    found = training_statistics(queries, (*SPECIALS, "C", "O", "[Si]", "N"), [0.2, 0.5, 0.9], digest="d", made="m")
    assert found.rare == {"[Si]": 3, "N": 0}
    assert 3 <= found.longest < 50 and 0.2 <= found.unlike < 0.3
    with pytest.raises(ValueError, match="no training queries"):
        training_statistics([], (), [], digest="", made="")


def test_first_answers_are_counted_by_their_percentage() -> None:
    results = [{"hypotheses": [hypothesis("C", probability)]} for probability in (0.99, 0.8, 0.79, 0.3)]
    rows = count_by_band(["C", "C", "N", "O", "S"], [*results, {"hypotheses": []}])
    assert [(row["from %"], row["answers"], row["right, %"]) for row in rows] == [
        (99, 1, "100.0"),
        (80, 1, "100.0"),
        (30, 2, "0.0"),
        (0, 0, "0.0"),
    ]
