"""`import chemspec` is all that a user needs, and costs next to nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import chemspec

NAMES = (
    "DECODERS DRAFTERS DecodeResult DecodeSettings DecoderSpec Draft Drafter DrafterInputs DrafterSpec EOS Engine "
    "FinishedSequence Hypothesis Importer LoadOptions LoadedModel Pass START ScoreRequest Scores Trace __version__ "
    "constrained_decoder drafter finish_sequence load split_smiles"
)


@pytest.fixture(scope="module")
def engine(tiny_retro: Path) -> chemspec.Engine:
    return chemspec.load(tiny_retro, threads=1)


def test_the_public_names_are_these_and_exist() -> None:
    assert set(chemspec.__all__) == set(dir(chemspec)) == set(NAMES.split())
    assert all(getattr(chemspec, name) is not None for name in NAMES.split())
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = chemspec.nothing  # type: ignore[attr-defined]


def test_importing_it_imports_next_to_nothing() -> None:
    """Counted in modules, for a clock would tell what else the machine does."""
    code = "import sys; before = set(sys.modules); import chemspec; print(len(set(sys.modules) - before), *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, *names = done.stdout.split()
    assert int(count) <= 40  # those of `typing`
    assert not {"torch", "rdkit", "numpy", "pandas", "streamlit", "chemspec.settings"} & set(names)


def test_a_string_gives_a_result_and_a_list_a_list(engine: chemspec.Engine) -> None:
    one = engine.predict("CC(=O)Nc1ccc(O)cc1", n=3, max_len=20, distinct=False)
    assert isinstance(one, chemspec.DecodeResult)
    assert len(one.hypotheses) == 3
    many = engine.predict(["CC(=O)Nc1ccc(O)cc1", "CC("], n=3, max_len=20, distinct=False)
    assert [result.status for result in many] == ["ok", "invalid"]
    assert [h.smiles for h in many[0].hypotheses] == [h.smiles for h in one.hypotheses]
    assert engine.predict("CC(").status == "invalid"
    assert engine.predict([]) == []


def test_keywords_override_settings(engine: chemspec.Engine) -> None:
    settings = chemspec.DecodeSettings(decoder="greedy", n=1, max_len=12)
    result = engine.predict("CCO", settings, drafter="copy")
    told = result.trace.settings
    assert (told["decoder"], told["drafter"], told["max_len"]) == ("greedy", "copy", 12)
    assert engine.predict("CCO", decoder="greedy", max_len=12).hypotheses == result.hypotheses
    with pytest.raises(ValueError, match="no drafter 'nobody'"):
        engine.predict("CCO", drafter="nobody")
    with pytest.raises(ValueError, match="no decoder None"):
        engine.predict("CCO", decoder=None)
    with pytest.raises(TypeError, match="wings"):
        engine.predict("CCO", wings=2)


def test_a_model_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path))
    with pytest.raises(ValueError, match="no model 'nobody'"):
        chemspec.load("nobody")


def test_a_model_of_another_task_is_refused(tiny_retro: Path) -> None:
    with pytest.raises(ValueError, match="is a retro model, not one for forward"):
        chemspec.load(tiny_retro, task="forward")
