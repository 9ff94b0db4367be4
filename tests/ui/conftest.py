"""What several tests of pages share."""

from __future__ import annotations

from typing import Any

import pytest


class State(dict[str, Any]):
    """Values by name and as attributes."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__  # type: ignore[assignment]


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> State:
    """A visitor's session."""
    st = pytest.importorskip("streamlit")
    kept = State()
    monkeypatch.setattr(st, "session_state", kept)
    return kept
