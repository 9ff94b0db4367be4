"""Accuracy: an answer counts if it is the same molecules, however they are written."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.small import tiny_folder
from hypothesis import given
from hypothesis import strategies as st

from chemspec.data.holdout import FILE
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import (
    MIN_REACTIONS,
    KnownReaction,
    accuracy_by_class,
    count_differences,
    evaluate_model,
    measurement_name,
    rank_of_truth,
    read_known_reactions,
    read_predictions,
    score_predictions,
    wilson_interval,
)
from chemspec.evaluation.calibration import calibrate_model
from chemspec.evaluation.measurements import read_measurements
from chemspec.evaluation.settings import CalibrationSettings, EvaluationSettings
from chemspec.settings import DecodeSettings

HOW = DecodeSettings(n=3, max_len=20, drafter="none")


def answer(canonical: str) -> dict[str, Any]:
    return {"canonical": canonical, "valid": bool(canonical)}


def result(*answers: str, status: str = "ok") -> dict[str, Any]:
    return {"status": status, "hypotheses": [answer(text) for text in answers], "passes": 4, "seconds": 0.5}


def test_the_rank_is_the_place_among_different_valid_answers() -> None:
    answers = [answer(text) for text in ("C", "", "C", "N", "O")]
    assert [rank_of_truth(text, answers) for text in ("C", "N", "O", "S", "")] == [1, 2, 3, 0, 0]


def test_accuracy_counts_refused_queries_as_wrong() -> None:
    asked = [KnownReaction(*row) for row in (["a", "C", "1"], ["b", "N", "1"], ["c", "O", "10"], ["d", "S", "2"])]
    found = score_predictions(asked, [result("C", "N"), result("C", "N"), result("", "C"), result(status="invalid")])
    assert {k: v["value"] for k, v in found["top"].items()} == {"1": 0.25, "2": 0.5}
    assert (found["reactions"], found["refused"]) == (4, 1)
    assert found["invalid"]["value"] == 1 / 6
    assert found["invalid_first"]["value"] == 1 / 3
    assert {k: v["value"] for k, v in found["top1_by_class"].items()} == {"1": 0.5, "2": 0.0, "10": 0.0}
    assert list(found["top1_by_class"]) == ["1", "2", "10"]
    assert (found["passes_per_query"], found["seconds_per_query"]) == (4, 0.5)


def test_accuracy_by_class_uses_the_classes_of_the_app_and_leaves_out_rare_ones() -> None:
    amide = KnownReaction("CC(=O)O.NCc1ccccc1.CCN=C=NCCCN(C)C", "CC(=O)NCc1ccccc1")
    suzuki = KnownReaction("Brc1ccccc1.OB(O)c1ccncc1.[Pd]", "c1ccc(-c2ccncc2)cc1")
    reactions = [amide] * MIN_REACTIONS + [suzuki] * (MIN_REACTIONS - 1)
    results = [result(amide.answer)] * 6 + [result("C", amide.answer)] * (len(reactions) - 6)
    classes = accuracy_by_class(reactions, results, "forward")
    assert list(classes) == ["Amide formation"]
    assert classes["Amide formation"]["reactions"] == MIN_REACTIONS
    assert {k: share["value"] for k, share in classes["Amide formation"]["top"].items()} == {"1": 0.6, "5": 1.0}
    swapped = [KnownReaction(item.answer, item.query) for item in reactions]
    assert list(accuracy_by_class(swapped, results, "retro")) == ["Amide formation"]


@given(st.integers(0, 500), st.integers(1, 500))
def test_the_interval_holds_the_value_and_stays_a_share(part: int, more: int) -> None:
    found = wilson_interval(part, part + more)
    assert 0 <= found["low"] <= found["value"] <= found["high"] <= 1


def test_the_interval_is_wilsons() -> None:
    found = wilson_interval(50, 100)
    assert (round(found["low"], 3), round(found["high"], 3)) == (0.404, 0.596)
    assert wilson_interval(0, 0) == {"value": 0.0, "low": 0.0, "high": 0.0}


CSV = "product,reactants,reaction_class\nCCO,OCC.Br,1\nCC,C(C)Cl,2\nC,short\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    return tmp_path / "t.csv.gz"


def test_answers_are_canonical_and_short_rows_are_rows(file: Path) -> None:
    found = read_known_reactions(file, "retro")
    assert found == [KnownReaction("CCO", "Br.CCO", "1"), KnownReaction("CC", "CCCl", "2"), KnownReaction("C", "short")]


def test_a_sample_is_the_same_for_a_seed(file: Path) -> None:
    samples = [read_known_reactions(file, "retro", limit=2, seed=seed) for seed in (0, 0, 1, 2, 3)]
    assert samples[0] == samples[1]
    assert {len(sample) for sample in samples} == {2}
    assert any(sample != samples[0] for sample in samples[2:])
    assert len(read_known_reactions(file, "retro", limit=9)) == 3
    with pytest.raises(ValueError, match="limit is -1; it must be at least 0"):
        read_known_reactions(file, "retro", limit=-1)


@pytest.mark.parametrize(
    ("text", "part"),
    [("product,x\nC,C\n", "no column 'reactants'"), ("product,reactants\n", "no rows"), ("", "no rows")],
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=part):
        read_known_reactions(tmp_path / "t.csv", "retro")


def test_predictions_are_written_and_reused(tmp_path: Path, file: Path) -> None:
    engine = Engine.load(tiny_folder(tmp_path / "model"), threads=1)
    settings, out = EvaluationSettings(file=file, out=tmp_path / "p.jsonl"), tmp_path / "p.jsonl"
    report = evaluate_model(engine, settings, HOW)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["query"] for row in rows] == ["CCO", "CC", "C"]
    # What the model finds first is what it is told to be right.
    first = [next((one["canonical"] for one in row["hypotheses"] if one["valid"]), "?") for row in rows]
    lines = [f"{row['query']},{answer}" for row, answer in zip(rows, first, strict=True)]
    (tmp_path / "right.csv").write_text("\n".join(["product,reactants", *lines]))
    right = evaluate_model(engine, replace(settings, file=tmp_path / "right.csv"), HOW, keep="chemspec it")
    assert right["top"]["3"]["value"] == sum(answer != "?" for answer in first) / 3
    stored = read_measurements(engine.folder)["accuracy"]
    assert (stored["command"], stored["top"]) == ("chemspec it", right["top"])
    assert evaluate_model(engine, settings, HOW) == report
    with pytest.raises(ValueError, match=r"\.jsonl"):
        evaluate_model(engine, replace(settings, out=tmp_path / "p.csv"), HOW)
    checkpoint = replace(engine, folder=tmp_path / "right.csv")
    with pytest.raises(ValueError, match="is not a folder to write to"):
        evaluate_model(checkpoint, settings, HOW, keep="chemspec it")
    with pytest.raises(ValueError, match="is not a folder to write to"):
        calibrate_model(checkpoint, CalibrationSettings(heldout=file))


def test_a_measurement_is_named_by_what_is_special() -> None:
    def name(file: str, dtype: str = "fp32", **how: Any) -> str:
        engine: Any = SimpleNamespace(task="retro", dtype=dtype)
        return measurement_name(engine, Path(file), replace(HOW, **how))

    assert [name("t.csv"), name("t.csv", "int8"), name(FILE)] == ["accuracy", "int8", "heldout"]
    assert [name("t.csv", "int8", augment=5), name("t.csv", distinct=True)] == ["augmented", "distinct"]


def written(*texts: str) -> dict[str, Any]:
    return {"hypotheses": [{"smiles": text, "log_prob": -1.0} for text in texts]}


def test_differences_count_texts_and_missing_answers() -> None:
    one, other = [written("C", "N", "O")], [written("C", "O")]
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
