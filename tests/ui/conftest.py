"""What several tests of pages share."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import warm_process

from chemspec.jobs import uploads


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


@pytest.fixture(autouse=True)
def _warm_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read uploaded files in forks of a process; `tests/jobs/test_uploads.py` has tests that start a new one."""
    monkeypatch.setattr(uploads.subprocess, "run", warm_process.run)
