"""Fine-tuning on own reactions, with a small model of random weights: parts, versions, and going on."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.small import TOKENIZER

from chemspec.cli.options import load_engine
from chemspec.engine.engine import Engine
from chemspec.engine.registry import choose_model, default_model, installed_models, model_folder, own_versions
from chemspec.evaluation import accuracy
from chemspec.evaluation.accuracy import KnownReaction
from chemspec.evaluation.loading import load_engines
from chemspec.evaluation.measurements import read_measurements
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.precedents.own import OwnReaction, load_reactions
from chemspec.service.service import Service
from chemspec.settings import preset_config
from chemspec.train import fine_tuned
from chemspec.train.fine_tune import OWN_FILE, _calibrate, fine_tune
from chemspec.train.settings import FineTuneSettings

AMINES = [f"{'C' * k}N" for k in range(2, 20)] + [f"{'C' * k}NC" for k in range(2, 20)]
REACTIONS = [
    OwnReaction(row, f"{amine}C(C)=O", f"CC(=O)Cl.{amine}", f"CC(=O)Cl.{amine}.ClCCl", f"row {row}")
    for row, amine in enumerate(AMINES, 1)
]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of models with one of a size that can be fine-tuned; without public reactions."""
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr("chemspec.train.fine_tune.installed", lambda: None)
    monkeypatch.setattr("chemspec.train.fine_tune.bench_answers", lambda _: {"CCNC(C)=O": "CC(=O)Cl.CCN"})
    model = Transformer(preset_config("tiny", vocab_size=len(TOKENIZER)))
    checkpoint.save(tmp_path / "models" / "retro", model, TOKENIZER, task="retro", half=False)
    return tmp_path / "models"


def test_a_version_is_made_measured_and_found_by_its_name(models: Path, tmp_path: Path) -> None:
    stages: list[str] = []
    how = FineTuneSettings(name="mine", steps=4)
    folder = fine_tune(REACTIONS, how, tmp_path / "work", tell=stages.append)
    assert stages == [*fine_tuned.STAGES.values()]
    assert folder == models / "mine-1" == model_folder("mine-1") == model_folder("mine")
    assert {"card.md", "evaluation.json", "manifest.json"} <= {file.name for file in folder.iterdir()}
    held, trained = (
        {each.product for each in load_reactions(tmp_path / "work" / name)} for name in ("heldout.csv", OWN_FILE)
    )
    assert not held & trained and len(held | trained) == len(REACTIONS) and len(held) == 7
    report = fine_tuned.read_report(folder)
    assert report and (report["reactions"], report["steps"], report["start"]) == (29, 4, "retro")
    assert [row[0] for row in fine_tuned.report_rows(report)][:1] == ["your held-out reactions, first answer right"]
    assert "0 of 7 (0 %)" in fine_tuned.describe_report(report) and [*fine_tuned.own_models()] == ["mine-1"]
    assert fine_tuned.read_progress(tmp_path / "work") == ("done", 4, 4)
    again = fine_tune(REACTIONS, how, tmp_path / "more")
    assert again.name == "mine-2" and own_versions("mine") == [folder, again] and model_folder("mine") == again
    assert {each.name for each in installed_models()} == {"retro", "mine-1", "mine-2"}
    measured = read_measurements(folder)
    assert {"accuracy", "int8"} <= measured.keys() and measured["int8"]["reactions"] == 1
    assert "not calibrated" in (folder / "card.md").read_text() and not (folder / "confidence.json").exists()
    choose_model("retro", "mine-1")
    assert load_engine("retro", "").name == "mine-1", "the switch reaches every command that names a task"
    service = Service({name: Engine.load(name) for name in ("retro", "mine-1")})
    assert (service.engine(None, "retro")[0], load_engines(["retro"])["retro"].name) == ("mine-1", "mine-1")
    assert (default_model("retro"), default_model("forward")) == ("mine-1", "forward")
    choose_model("retro", "retro")
    assert default_model("retro") == "retro"


@pytest.mark.parametrize(("count", "odd", "slope"), [(39, 1, None), (60, 1, None), (60, 0, 1.0), (60, 3, "fitted")])
def test_a_calibration_takes_forty_answers_and_has_to_be_better_than_none(
    count: int, odd: int, slope: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has one answer of 0.9. `odd` 3: a third is wrong; 0: a tenth is; 1: all are right, but only 30 are valid."""
    held = [KnownReaction(f"{'C' * k}O", f"{'C' * k}N") for k in range(1, count + 1)]
    wrong = {0: lambda k: k % 10 == 9, 1: lambda _: False, 3: lambda k: k % 3 == 2}[odd]
    monkeypatch.setattr(accuracy, "read_known_reactions", lambda *_: held)
    monkeypatch.setattr(accuracy, "read_predictions", lambda *_: [
        {"query": each.query, "hypotheses": [{
            "valid": odd != 1 or k < 30, "canonical": "C" if wrong(k) else each.answer, "model_probability": 0.9}]}
        for k, each in enumerate(held)
    ])  # fmt: skip
    calibration = _calibrate("retro", tmp_path)
    if slope is None or calibration is None:
        assert calibration is slope
    else:
        assert calibration["slope"] == slope or (slope == "fitted" and 0.2 < calibration["slope"] < 0.5)


def test_a_stopped_run_goes_on(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> Path:
        raise KeyboardInterrupt

    how = FineTuneSettings(name="mine", steps=4)
    with monkeypatch.context() as patch:
        patch.setattr("chemspec.train.run.train_padded", stopped)
        with pytest.raises(KeyboardInterrupt):
            fine_tune(REACTIONS, how, tmp_path / "work")
    assert fine_tuned.read_progress(tmp_path / "work") == ("training", 0, 4) and not own_versions("mine")
    assert fine_tune(REACTIONS, how, tmp_path / "work").name == "mine-1"


def test_what_cannot_be_fine_tuned_is_told(models: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="29 usable reactions; at least 30"):
        fine_tune(REACTIONS[:29], FineTuneSettings(name="mine"), tmp_path)
    for options, message in (
        ({"name": "a b"}, "no name for a model"),
        ({"name": "a", "task": "reagents"}, "models of reagents are not fine-tuned"),
    ):
        with pytest.raises(ValueError, match=message):
            FineTuneSettings(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no model 'forward'"):
        fine_tune(REACTIONS, FineTuneSettings(name="mine", task="forward"), tmp_path)
