"""Tiny models, and a service on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.serving import Running, serving
from helpers.small import tiny_folder

from chemspec.engine.engine import Engine


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    # With these seeds some of the answers are molecules.
    home = tmp_path_factory.mktemp("served")
    return {
        "retro": tiny_folder(home / "retro", task="retro", seed=4),
        "forward": tiny_folder(home / "forward", task="forward", seed=3),
    }


@pytest.fixture(scope="session")
def engines(folders: dict[str, Path]) -> dict[str, Engine]:
    return {name: Engine.load(folder, threads=1) for name, folder in folders.items()}


@pytest.fixture(scope="session")
def running(engines: dict[str, Engine]) -> Iterator[Running]:
    pytest.importorskip("fastapi")
    with serving(engines) as service:
        yield service
