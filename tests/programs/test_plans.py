"""Loops against each other on the toy: same routes, resumable, counts by loop."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.paths import TESTS
from programs import plans

pytest.importorskip("syntheseus")
pytest.importorskip("apted")
sys.path.append(str(TESTS / "plan"))

from helpers.toy import ACID_AMIDE, AMIDE, Toy, retro, stock

from chemspec import chem
from chemspec.plan.settings import PlanSettings


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
    limits, models = PlanSettings(), dict.fromkeys(("auto", "fp32"), (model, agrees))
    rows = plans.run(models, stock(tmp_path), targets, out, limits)
    asked = len(model.asked)
    assert plans.run(models, stock(tmp_path), targets, out, limits) == rows and len(model.asked) == asked
    with out.open("a") as file:
        file.write('{"target": "torn')
    wider = plans.run(models, stock(tmp_path), targets, out, replace(limits, depth=3))
    assert len(model.asked) > asked and wider != rows  # another search, which is not read from the file
    asked = len(model.asked)
    assert plans.run(models, stock(tmp_path), targets, out, limits) == rows and len(model.asked) == asked
    found = {row["loop"]: row for row in plans.summary(rows)}
    assert list(found) == list(plans.LOOPS)
    for row in found.values():
        assert row["targets"] == 2 and row["solved"] == 1
    assert found["ours"]["checks a target"] <= found[plans.PLAIN]["checks a target"]
    assert found[plans.PLAIN]["times the plain loop"] == 1
    assert [row["same best route"] for row in plans.agreement(rows)] == [2] * len(plans.LOOPS)


def result(*scores: float, solved: bool = True, routes: str = "abc") -> dict[str, object]:
    return {"solved": solved, "scores": scores, "routes": list(routes)}


def test_every_difference_has_a_name() -> None:
    one = result(0.5, 0.3)
    cases = {
        "same best route": result(0.4, 0.3),
        "near-tie": result(0.49, 0.3, routes="bac"),
        "the other's best is further down": result(0.8, 0.3, routes="xya"),
        "other routes": result(0.8, 0.3, routes="xyz"),
        "solved by this only": result(solved=False),
    }
    assert {kind: plans.difference(one, other) for kind, other in cases.items()} == {kind: kind for kind in cases}
    assert plans.difference(result(solved=False), one) == "solved by the plain loop only"
    assert plans.difference(result(solved=False), result(solved=False)) == "neither solved"
    assert {*cases, "solved by the plain loop only", "neither solved"} == set(plans.KINDS)
