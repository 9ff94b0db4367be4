"""The benchmark of anytime planning: when a target counts as solved, and what its tables say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import TESTS

pytest.importorskip("syntheseus")
pytest.importorskip("apted")
pytest.importorskip("altair")

sys.path.append(str(TESTS / "plan"))

from helpers.toy import AMIDE, Toy, retro, stock
from programs import anytime

from chemspec import chem
from chemspec.plan.algorithms import ReactionModel
from chemspec.plan.expand import Expander
from chemspec.plan.settings import PlanSettings

pytestmark = pytest.mark.filterwarnings("ignore:No iteration or time")
HARD, EASY = "CCCCCC", str(chem.canonical(AMIDE))


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that advances by a second at every look."""
    counted = [0.0]

    def clock() -> float:
        counted[0] += 1.0
        return counted[0]

    monkeypatch.setattr(anytime, "clock", clock)
    return counted


def test_the_planner_is_stopped_at_its_first_route_or_when_time_is_over(tmp_path: Path, ticks: list[float]) -> None:
    models: Any = {"retro": retro(), "forward": Toy({})}
    found = anytime.plan_until_solved(models, stock(tmp_path), EASY, "none", 1e6, 10)
    assert 0 < found["solved"] <= found["spent"]
    assert found["expansions"] >= 3
    assert anytime.plan_until_solved(models, stock(tmp_path), HARD, "none", 1e6, 10)["solved"] is None
    assert anytime.plan_until_solved(models, stock(tmp_path), EASY, "none", 2.0, 10)["solved"] is None


def test_the_plain_loop_is_stopped_likewise(tmp_path: Path, ticks: list[float]) -> None:
    model: Any = ReactionModel(Expander(retro(), keep=False), PlanSettings())
    found = anytime.plain_until_solved(model, stock(tmp_path), EASY, 1e6, 8)
    assert 0 < found["solved"] <= found["spent"]
    assert found["expansions"] >= 3
    assert anytime.plain_until_solved(model, stock(tmp_path), HARD, 1e6, 8)["solved"] is None
    assert anytime.plain_until_solved(model, stock(tmp_path), EASY, 2.0, 8)["solved"] is None


def row(*times: float | None) -> dict[str, Any]:
    return {"target": "C", "arms": {arm: {"solved": at} for arm, at in zip(anytime.ARMS, times, strict=True)}}


ROWS = [row(0.5, 0.7, 1.5, None), row(None, 4.0, 0.1, 20.0), row(1.0, 1.0, 1.0, 1.0)]


def test_shares_pairs_and_times() -> None:
    shares = [[found for found, *_ in entry["solved"].values()] for entry in anytime.solved_shares(ROWS)]
    assert shares == [[2, 2, 2, 2], [2, 2, 3, 3], [2, 3, 3, 3], [1, 1, 1, 1]]
    pairs = anytime.paired_counts(ROWS, "chemspec plan", "Syntheseus, plug-in")
    assert pairs == {"1 s": (1, 1), "2 s": (0, 1), "5 s": (0, 1), "15 s": (0, 1)}
    assert anytime.times_as_csv(ROWS).splitlines()[1:3] == ["C,0.5000,0.7000,1.5000,", "C,,4.0000,0.1000,20.0000"]


def test_the_interval_is_wilsons() -> None:
    low, high = anytime.wilson_interval(50, 100)
    assert (low, high) == (pytest.approx(0.4038, abs=1e-3), pytest.approx(0.5962, abs=1e-3))
    assert anytime.wilson_interval(0, 10)[0] == 0.0
    assert anytime.wilson_interval(0, 0) == (0.0, 1.0)
