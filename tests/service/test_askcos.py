"""The protocol of ASKCOS v2."""

from __future__ import annotations

import math

import pytest
from helpers.serving import Running
from helpers.small import QUERIES

from chemspec.engine.engine import Engine

pytest.importorskip("fastapi")


@pytest.mark.parametrize("task", ["retro", "forward"])
def test_askcos_gets_of_every_smiles_its_answers_in_order(
    running: Running, engines: dict[str, Engine], task: str
) -> None:
    queries = [*QUERIES, "CC("]
    asked = {"model_name": task, "smiles": queries}
    status, answers, _ = running.send("POST", f"/predictions/{task}", asked)
    assert status == 200 and len(answers) == len(queries)
    for query, answer in zip(queries, answers, strict=True):
        assert set(answer) == {"products", "scores"}
        own = engines[task].predict(query, n=10, distinct=True).hypotheses
        assert answer["products"] == [one.canonical for one in own]
        assert answer["scores"] == pytest.approx([math.exp(one.log_prob) for one in own])
        assert answer["scores"] == sorted(answer["scores"], reverse=True)
    assert answers[-1] == {"products": [], "scores": []}
    assert sum(bool(answer["products"]) for answer in answers) >= 3


def test_askcos_may_ask_nothing_and_no_stranger(running: Running) -> None:
    assert running.send("POST", "/predictions/retro", {"smiles": []})[:2] == (200, [])
    assert running.send("POST", "/predictions/nobody", {"smiles": ["C"]})[0] == 404
