"""Cards: tables come from measurements of these very weights, everything else in a card stays."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import ROOT
from helpers.small import QUERIES, tiny_folder
from programs import model_card
from programs.wrong_answers import count_error_kinds

from chemspec.engine.engine import Engine, confidence
from chemspec.evaluation.accuracy import KnownReaction, evaluate_model, score_predictions
from chemspec.evaluation.calibration import NUMBERS, fit_calibration
from chemspec.evaluation.measurements import MEASUREMENTS_FILE, read_measurements, store_measurements
from chemspec.evaluation.settings import EvaluationSettings
from chemspec.model.checkpoint import digest_of_folder
from chemspec.settings import DecodeSettings
from chemspec.ui.models import cards

TODAY = date(2026, 11, 21)
CARD = "# m\n\nOwn words.\n\n## Accuracy\n\n<!-- accuracy -->\nold\n<!-- end accuracy -->\n\n## More\n\nKept.\n"


def measured(**more: Any) -> dict[str, Any]:
    rows = [{"canonical": c, "valid": True, "probability": 0.5, "smiles": c} for c in ("C", "N")]
    result = {"status": "ok", "hypotheses": rows, "passes": 4, "seconds": 0.5}
    found = score_predictions([KnownReaction("a", "C", "1"), KnownReaction("b", "N", "2")], [result, result])
    return {"file": "retro_test.csv.gz", "settings": {"decoder": "beam", "n": 2}, **found, **more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "card.md").write_text(CARD)
    return tmp_path


def put(folder: Path, name: str = "accuracy", digest: str = "d", **more: Any) -> None:
    store_measurements(folder, [name], measured(**more), digest=digest, command="chemspec it", today=TODAY)


def test_a_section_is_filled_and_the_rest_stays(folder: Path) -> None:
    put(folder)
    assert model_card.fill(folder, "d") == [f"{name} has not been measured" for name in ()]
    text = (folder / "card.md").read_text()
    assert text.startswith("# m\n\nOwn words.\n") and text.endswith("## More\n\nKept.\n")
    assert "old" not in text
    assert "2026-11-21 by `chemspec it`" in text and "USPTO-50K test part" in text
    assert "| top-1 | 50.0% (9.5% to 90.5%) |" in text
    assert read_measurements(folder)["accuracy"]["top"]["1"]["value"] == 0.5  # the page Models reads it
    before = text
    assert not model_card.fill(folder, "d") and (folder / "card.md").read_text() == before
    put(folder)  # the same numbers again
    model_card.fill(folder, "d")
    assert (folder / "card.md").read_text() == before


def test_numbers_of_other_weights_are_taken_out(folder: Path) -> None:
    put(folder, digest="old")
    (problem,) = model_card.fill(folder, "new")
    assert "accuracy was measured with other weights" in problem
    assert "50.0%" not in (folder / "card.md").read_text()


def test_what_is_broken_is_named(folder: Path) -> None:
    (folder / MEASUREMENTS_FILE).write_text("[")
    with pytest.raises(ValueError, match=r"evaluation\.json cannot be read"):
        model_card.fill(folder, "d")
    (folder / MEASUREMENTS_FILE).write_text(json.dumps({"accuracy": {"digest": "d", "top": {}}}))
    with pytest.raises(ValueError, match="accuracy lacks"):
        model_card.fill(folder, "d")
    (folder / "card.md").write_text("<!-- accuracy -->\n")
    with pytest.raises(ValueError, match="has no <!-- end accuracy -->"):
        model_card.fill(folder, "d")
    (folder / "card.md").unlink()
    with pytest.raises(ValueError, match=r"card\.md is missing"):
        model_card.fill(folder, "d")


def test_every_section_is_drawn_from_what_commands_measure(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "retro")
    engine = Engine.load(folder, threads=1)
    rows = [f"{query},CC,1" for query in QUERIES]
    (tmp_path / "t.csv").write_text("\n".join(["product,reactants,reaction_class", *rows]))
    how = DecodeSettings(n=3, max_len=6, drafter="copy")
    settings = EvaluationSettings(file=tmp_path / "t.csv", out=tmp_path / "fast.jsonl", standard=True)
    found = evaluate_model(engine, settings, how)
    assert found["standard"]["differing"] == 0
    found |= {"settings": {"decoder": "beam", "n": 3}}
    level = {"value": 0.5, "low": 0.4, "high": 0.6}
    trip = {
        "forward": {"model": "f", "digest": "x"},
        "reactions": 3,
        "kept": {"1": level},
        "found": {"1": level},
        "truth": level,
    }
    trip["with_reagents"] = {"model": "r", "digest": "y", **{name: trip[name] for name in ("kept", "found", "truth")}}
    judged = fit_calibration([[(0.5, True)], [(0.4, False)]])
    told = {"queries": 2, "answers": 2, "table": judged["table"], "slope": 1.0, "offset": 0.0, "numbers": NUMBERS}
    sections = dict.fromkeys(("accuracy", "heldout", "int8", "augmented", "distinct", "classes"), found)
    sections["heldout"] = {**found, "recall": {"1": {"value": 0.25, "low": 0.2, "high": 0.3}}}
    wrong = [{"hypotheses": [{"smiles": "C(", "canonical": "", "valid": False, "probability": 0.5}]}]
    faults = count_error_kinds([("C", "CC")], wrong, "retro")
    sections |= {"roundtrip": trip, "reliability": told, "failures": {"reactions": 1, "faults": faults}}
    assert set(sections) == set(model_card.SECTIONS)
    digest = digest_of_folder(folder)
    assert digest == engine.digest
    for name, section in sections.items():
        store_measurements(folder, [name], section, digest=digest, command="c", today=TODAY)
    places = "".join(f"<!-- {name} -->\n<!-- end {name} -->\n" for name in sections)
    (folder / "card.md").write_text(f"# m\n{places}")
    assert model_card.fill(folder, digest) == []
    text = (folder / "card.md").read_text()
    assert "| each reagent, first 1 | 25.0% (20.0% to 30.0%)" in text
    assert "the model `r` (y) proposes in 50.0%" in text and "targets with such an answer; with reagents" in text
    assert "no valid SMILES" in text and "Not measured" not in text
    assert confidence.FILE not in text


@pytest.mark.parametrize("name", ["forward", "retro"])
def test_shipped_cards_are_what_the_command_writes(name: str, tmp_path: Path) -> None:
    folder = ROOT / "assets" / "models" / name
    if not (folder / MEASUREMENTS_FILE).is_file():
        pytest.skip(f"{folder} holds no measurements")
    for file in ("card.md", MEASUREMENTS_FILE):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    model_card.fill(tmp_path, digest_of_folder(folder))
    assert (tmp_path / "card.md").read_text() == (folder / "card.md").read_text()


def test_the_page_shows_no_comments() -> None:
    _, sections = cards.split_card(CARD)
    assert dict(sections)["Accuracy"] == "old"
