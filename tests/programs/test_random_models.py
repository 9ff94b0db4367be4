"""The campaign over random models finds no difference, notices a lossy rule, and goes on where it was ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.compilers import needs_compiler
from helpers.small import accept_too_much
from programs import random_models
from typer.testing import CliRunner

pytestmark = needs_compiler


def test_it_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    out = tmp_path / "next"
    found = []
    for _ in range(2):
        words = ["--count", "8", "--skip", "2", "--out", str(out)]
        result = CliRunner().invoke(random_models.app, words)
        assert result.exit_code == 0, result.output
        found.append(json.loads(result.stdout))
    assert (found[0]["first"], found[0]["next"], found[0]["differ"]) == (2, 10, 0)
    assert found[0]["answers"] > 8
    assert (found[1]["first"], found[1]["next"], found[1]["answers"]) == (10, 10, 0)
    assert out.read_text() == "10\n"


def test_it_notices_a_lossy_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    accept_too_much(monkeypatch)
    with pytest.raises(AssertionError, match="case"):
        list(map(random_models.check, range(60)))


def test_it_notices_scores_that_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = random_models.naive_log_probs
    monkeypatch.setattr(random_models, "CHECKED", 1.0)
    monkeypatch.setattr(random_models, "naive_log_probs", lambda *given: honest(*given) + 0.01)
    with pytest.raises(AssertionError, match="scores"):
        list(map(random_models.check, range(20)))
