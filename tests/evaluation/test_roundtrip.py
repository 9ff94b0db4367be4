"""Round trips and the kinds of wrong answers, on answers made up for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks import roundtrip
from small import tiny_folder

from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import KnownReaction, count_differences, read_predictions
from chemspec.evaluation.error_analysis import EMPTY, FAULTY, OTHER, classify_error, count_error_kinds


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


def test_differences_count_texts_and_missing_answers() -> None:
    one, other = [answers("C", "N", "O")], [answers("C", "O")]
    assert count_differences(one, one) == {"differing": 0, "answers": 3, "gap": 0.0}
    assert count_differences(one, other)["differing"] == 2
    other[0]["hypotheses"][0]["log_prob"] = -1.25
    assert count_differences(one, other)["gap"] == 0.25


def test_predictions_of_other_questions_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"query": "C"}\n')
    assert read_predictions(file, [KnownReaction("C", "")]) == [{"query": "C"}]
    with pytest.raises(ValueError, match="predictions of other queries than these 1"):
        read_predictions(file, [KnownReaction("N", "")])
    file.write_text("nonsense\n")
    with pytest.raises(ValueError, match="no predictions"):
        read_predictions(file, [KnownReaction("N", "")])
