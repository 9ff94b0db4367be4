"""Installed models with random weights."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.small import tiny_folder


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # With these seeds some of the answers are molecules.
    folder = tmp_path_factory.mktemp("models")
    tiny_folder(folder / "retro", seed=4)
    tiny_folder(folder / "forward", task="forward", seed=3)
    tiny_folder(folder / "reagents", task="reagents", seed=3)
    return folder


@pytest.fixture
def models(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use these models, and work in an empty folder."""
    monkeypatch.setenv("CHEMSPEC_MODELS", str(home))
    monkeypatch.chdir(tmp_path)
