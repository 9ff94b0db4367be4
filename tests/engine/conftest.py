"""An engine on the small model."""

from __future__ import annotations

from pathlib import Path

import pytest

from chemspec.engine.engine import Engine


@pytest.fixture(scope="session")
def engine(tiny_retro: Path) -> Engine:
    return Engine.load(tiny_retro, threads=1)
