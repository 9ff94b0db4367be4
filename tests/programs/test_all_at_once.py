"""The campaign of all routes at once, at small size: what it must find right is right, and it sees what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.serving import serving
from helpers.small import two_tiny_folders
from programs import all_at_once
from programs.all_at_once import Asker, Tally

from chemspec.chem.molecules import parsing
from chemspec.engine.engine import Engine

pytest.importorskip("fastapi")


@pytest.mark.parametrize("rounds", [0, pytest.param(1, marks=pytest.mark.nightly)])  # 20 s beside a greedy client
def test_a_service_answers_all_of_it_and_stops(tmp_path: Path, rounds: int) -> None:
    models = sorted(path for path in two_tiny_folders(tmp_path / "models").iterdir())
    seen = all_at_once.run(models, tmp_path, clients=16, seconds=6.0, rounds=rounds, requests=2)
    assert not seen["faults"] and seen["answered"] and seen["exit_code"] == 0, seen
    assert seen["stop_s"] < all_at_once.GRACE + 5.0
    assert seen["requests"] > 50 and seen["statuses"]["200"] > 10 and seen["statuses"]["left"] > 5
    assert "422" in seen["statuses"]


def test_it_sees_wrong_answers_and_statuses(tmp_path: Path) -> None:
    engine = Engine.load(two_tiny_folders(tmp_path) / "retro", threads=1)
    with serving({"retro": engine}) as running:
        tally = Tally()
        asker = Asker(running.port, 1, tally, {query: [("ok", 0.0), ("C", -1.0)] for query in all_at_once.QUERIES})
        asker.request = lambda: ("POST", "/v1/predict", {**all_at_once.HOW, "queries": ["CCO"]})  # type: ignore[method-assign]
        asker.plain()
        assert list(tally.faults) == ["POST /v1/predict plain: a wrong answer for CCO"]
        running.service.engine = None  # type: ignore[method-assign, assignment]
        asker.plain()
        assert any("status 500" in fault for fault in tally.faults)
    asker.plain()
    assert any("no answer" in fault for fault in tally.faults)


def test_its_hard_texts_are_hard(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(parsing.SANDBOX, "ask", lambda _, text: tried.append(text) or "")
    text = all_at_once.hard_text(5)
    assert text != all_at_once.hard_text(6) and sum(parsing.ring_labels(text)) // 2 > parsing.FEW_RINGS
    parsing.smiles_refusal(text)
    assert tried == [text]
