"""Loops against each other on the toy: same routes, resumable, counts by loop."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from paths import TESTS

pytest.importorskip("syntheseus")
pytest.importorskip("apted")
sys.path.append(str(TESTS / "plan"))

from toy import ACID_AMIDE, AMIDE, Toy, retro, stock

from chemspec import chem
from chemspec.bench import plans
from chemspec.plan.search import PlanSettings


def test_loops_find_the_same_and_ours_asks_less(tmp_path: Path) -> None:
    model, out = retro(), tmp_path / "found.jsonl"
    targets = [str(chem.canonical(AMIDE)), str(chem.canonical(ACID_AMIDE))]
    agrees = Toy(
        {
            ".".join(sorted(str(chem.canonical(text)).split("."))): [(product, 0.9)]
            for product, ways in retro().table.items()
            for text, _ in ways
            if chem.is_valid(text)
        }
    )
    limits = PlanSettings(ahead=7)
    rows = plans.run(model, agrees, stock(tmp_path), targets, out, limits)
    asked = len(model.asked)
    assert plans.run(model, agrees, stock(tmp_path), targets, out, limits) == rows and len(model.asked) == asked
    found = {row["loop"]: row for row in plans.summary(rows)}
    assert list(found) == list(plans.LOOPS)
    for row in found.values():
        assert row["targets"] == 2 and row["solved"] == row["same best route"] == row["same 5 routes"] == 1
    assert found["speculative"]["checks a target"] <= found["Syntheseus"]["checks a target"]
