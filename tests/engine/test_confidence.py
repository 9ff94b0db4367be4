"""Calibration: the fit finds what made the outcomes, the errors are those of the definition, stale files are
refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from helpers.small import QUERIES, tiny_folder

from chemspec.engine.confidence import (
    Confidence,
    apply_calibration,
    expected_calibration_error,
    fit_slope,
    load_confidence,
    negative_log_likelihood,
    sigmoid,
)
from chemspec.engine.engine import Engine, confidence
from chemspec.evaluation import calibration
from chemspec.evaluation.accuracy import KnownReaction
from chemspec.evaluation.calibration import NUMBERS, RAW, TEMPERATURE, collect_outcomes, fit_calibration
from chemspec.evaluation.measurements import read_measurements
from chemspec.evaluation.settings import CalibrationSettings
from chemspec.settings import DecodeSettings
from chemspec.types import Hypothesis


@pytest.mark.parametrize("slope", [0.5, 1.0, 2.0])
def test_the_fit_finds_what_made_the_outcomes(slope: float) -> None:
    rng = Random(0)
    rows = [(p, rng.random() < sigmoid(slope * confidence.log_odds(p))) for p in (rng.random() for _ in range(20_000))]
    found = fit_slope(rows)
    assert found == pytest.approx(slope, abs=0.05)
    fitted = apply_calibration(rows, found)
    assert expected_calibration_error(fitted) < 0.02 and expected_calibration_error(fitted, mass=True) < 0.02
    if slope != 1.0:
        assert expected_calibration_error(rows) > 0.05
        assert negative_log_likelihood(rows) > negative_log_likelihood(fitted)


def test_without_answers_there_is_nothing_to_fit() -> None:
    with pytest.raises(ValueError, match="no answer"):
        fit_slope([])


def test_a_slope_that_nothing_bounds_is_finite() -> None:
    assert 0 < fit_slope([(0.5078125, True)]) < math.inf  # no slope is steep enough but for the ridge


def test_the_error_is_that_of_the_definition() -> None:
    rows = [(0.05, False), (0.05, True), (0.95, True), (0.95, False)]
    # Two bins of two answers: |1 - 0.1| / 4 + |1 - 1.9| / 4.
    assert expected_calibration_error(rows) == pytest.approx(0.45)
    assert expected_calibration_error([(1.0, True), (0.0, False)]) == 0
    assert expected_calibration_error([(1.0, False)]) == 1
    # Equal mass tells crowded probabilities apart that one wide bin throws together.
    crowd = [(0.001 * k, k >= 30) for k in range(60)]
    assert expected_calibration_error(crowd, mass=True) > expected_calibration_error(crowd)
    # Two bins of two and three answers: |1 - 0.2| and |1 - 1.5|, of five answers.
    fives = [(0.1, False), (0.1, True), (0.2, True), (0.6, False), (0.7, False)]
    assert expected_calibration_error(fives, mass=True, bins=2) == pytest.approx(0.26)


def answer(canonical: str, probability: float, text: str = "") -> Hypothesis:
    return Hypothesis(text, canonical, bool(canonical), tuple(text or canonical), (), 0.0, probability, probability)


@pytest.mark.parametrize(("texts", "total"), [("AB", 0.4), ("AA", 0.3)], ids=["two texts", "one text twice"])
def test_texts_of_a_molecule_share_a_probability_and_faulty_ones_have_none(texts: str, total: float) -> None:
    second = total - 0.3 or 0.3
    answers = [answer("A", 0.3, texts[0]), answer("", 0.2), answer("A", second, texts[1])]
    found = Confidence("d", 0.5, 0.1, "", {}).calibrate(answers)
    expected = sigmoid(0.5 * math.log(total / (1 - total)) + 0.1)
    assert found[0].probability == found[2].probability == pytest.approx(expected)
    assert found[1].probability == 0.0
    assert [one.model_probability for one in found] == [0.3, 0.2, second]


# --- the file ------------------------------------------------------------------------------------


def test_it_is_kept_in_the_model_folder(tmp_path: Path) -> None:
    one = Confidence("abc", 0.7, -0.2, "command", {"queries": 5.0})
    one.save(tmp_path)
    assert confidence.load_confidence(tmp_path, "abc") == (one, "")
    assert confidence.load_confidence(tmp_path / "none", "abc") == (None, "")
    file = tmp_path / confidence.FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), "likeness": 0.0, "usual": 0.0}))  # of version 0.2
    assert confidence.load_confidence(tmp_path, "abc") == (one, "")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"digest": "old"}, "other weights"),
        ({"slope": -1}, "a slope or an offset that is none"),
        ({"slope": "x"}, "cannot be read"),
        ({"likeness": 4.0, "usual": 0.5}, "term for likeness"),  # of version 0.2
        ({"measured": 3}, "cannot be read"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, object], part: str) -> None:
    Confidence("abc", 0.7, -0.2, "command", {}).save(tmp_path)
    file = tmp_path / confidence.FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    found, problem = confidence.load_confidence(tmp_path, "abc")
    assert found is None and part in problem and "chemspec train calibration" in problem


def test_an_engine_calibrates_by_numbers_of_its_own_weights_only(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "retro")
    engine = Engine.load(folder, threads=1)
    how = DecodeSettings(n=3, max_len=20)
    assert not any(h.calibrated for r in engine.predict(QUERIES, how) for h in r.hypotheses)
    one = Confidence(engine.digest, 0.5, 0.0, "", {})
    one.save(folder)
    engine = Engine.load(folder, threads=1)
    for result in engine.predict(QUERIES, how):
        assert result.hypotheses == one.calibrate(result.hypotheses)
        assert all(h.calibrated for h in result.hypotheses)
    tiny_folder(folder, seed=5)
    stale = Engine.load(folder, threads=1)
    assert stale.confidence is None and "other weights" in stale.confidence_problem
    assert stale.predict(["CCO"], how)[0].hypotheses[0].calibrated is False


# --- measuring -----------------------------------------------------------------------------------


def test_outcomes_are_different_molecules() -> None:
    rows = [
        {"canonical": c, "valid": bool(c), "model_probability": p}
        for c, p in (("A", 0.4), ("B", 0.1), ("", 0.2), ("A", 0.3))
    ]
    assert collect_outcomes([KnownReaction("q", "B")], [{"hypotheses": rows}]) == [
        [(pytest.approx(0.7), False), (0.1, True)]
    ]
    assert collect_outcomes([KnownReaction("q", "B")], [{"hypotheses": []}]) == [[]]


def test_halves_are_measured_with_the_other_halfs_fit() -> None:
    # The halves contradict each other: only a fit on itself could look calibrated.
    halves = [[(0.9, bool(k % 2))] for k in range(400)]
    assert fit_calibration(halves)["table"]["sequence"][TEMPERATURE]["first: ece by width"] > 0.7
    with pytest.raises(ValueError, match="nothing can be measured"):
        fit_calibration([[]])


def test_measuring_asks_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.load(tiny_folder(tmp_path / "retro"), threads=1)
    how = DecodeSettings(n=5, max_len=6, drafter="none")
    # A model of random weights writes few molecules; here whatever it writes is one.
    monkeypatch.setattr("chemspec.chem.canonical", lambda text: text)
    told = [r.hypotheses for r in engine.predict(QUERIES, how)]
    asked = [KnownReaction(q, own[0].smiles) for q, own in zip(QUERIES, told, strict=True)]
    monkeypatch.setattr(calibration, "read_known_reactions", lambda *_, **__: asked)
    monkeypatch.setattr(calibration, "DecodeSettings", lambda n, **_: replace(how, n=n))
    settings = CalibrationSettings(n=5, out=tmp_path / "a.jsonl", seed=3, heldout=tmp_path / "heldout.csv")
    report = calibration.calibrate_model(engine, settings, keep="chemspec it")
    found, _ = load_confidence(engine.folder, engine.digest)
    assert found.made == "chemspec train calibration --task retro --queries 1000 --seed 3 -n 5 --heldout heldout.csv"
    stored = read_measurements(engine.folder)["reliability"]
    assert (stored["command"], stored["slope"], stored["numbers"]) == ("chemspec it", report["slope"], list(NUMBERS))
    known = sum(any(h.valid for h in own) for own in told)
    assert report["queries"] == known > 1 and 0 < report["top1"] <= 1
    assert report["answers"] == sum(len({h.canonical for h in own if h.valid}) for own in told)
    assert found.measured["first: loss, as it is"] == report["table"]["sequence"][RAW]["first: loss"]
