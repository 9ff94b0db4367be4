"""Counting how drafters with a model fare."""

from __future__ import annotations

from pathlib import Path

import pytest
from small import QUERIES, tiny_folder

from chemspec import gammas
from chemspec.engine import Engine, usable
from chemspec.settings import DRAFTER_NAMES, DecodeSettings
from chemspec.ui import serve


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with itself as its small model, and without a medium one."""
    home = tiny_folder(tmp_path_factory.mktemp("models") / "retro")
    tiny_folder(home / "drafters" / "ar")
    return home


def test_passes_and_runs_of_the_small_model_are_counted(folder: Path) -> None:
    engine = Engine.load(folder, device="cpu", threads=1, runtime="torch", dtype="fp64")
    settings = DecodeSettings(decoder="greedy", n=1, max_len=20, batch_size=1)
    copied, two, four = gammas.count(
        engine, QUERIES[:4], settings, drafters=("copy", "ar"), lengths=(2, 4)
    )
    assert (copied["gamma"], two["gamma"], four["gamma"]) == ("", "2", "4")
    assert copied["draft_calls"] == 0
    assert [row["same"] for row in (copied, two, four)] == [1, 1, 1]
    for row, length in ((two, 2), (four, 4)):
        # It drafts for itself: all is accepted, but for the ends.
        assert row["alpha"] == 1
        assert length * 0.7 < row["calls_per_pass"] <= length + 1
        assert length < row["tokens_per_pass"] <= length + 1
    assert gammas.price(engine.companion("ar"), engine) > 0


def test_a_model_is_offered_the_drafters_that_it_can_use(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(folder.parent))
    assert set(DRAFTER_NAMES) - set(usable(folder)) == {
        "hierarchy",
        "spec_drafter",
        "blockwise",
        "medusa",
    }
    names, missing = serve.drafters("retro")
    assert names == usable(folder)
    assert "hierarchy, spec_drafter, blockwise and medusa need small models" in missing
    alone = tiny_folder(tmp_path / "alone")
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path))
    names, missing = serve.drafters("alone")
    assert not {"ar", "hierarchy", "spec_drafter"} & set(names)
    assert "ar, hierarchy, spec_drafter, blockwise and medusa need" in missing
    assert usable(alone) == names
