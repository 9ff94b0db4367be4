"""The protocol of ASKCOS v2."""

from __future__ import annotations

import math

import pytest
from serving import Running
from small import QUERIES

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
        assert answer["products"] == [
            one.canonical for one in engines[task].predict(query, n=10, distinct=True).hypotheses
        ]
        assert len(answer["scores"]) == len(answer["products"]) and all(0 < one <= 1 for one in answer["scores"])
        assert answer["scores"] == sorted(answer["scores"], reverse=True)
    assert answers[-1] == {"products": [], "scores": []}
    assert sum(bool(answer["products"]) for answer in answers) >= 3


def test_askcos_may_ask_nothing_and_no_stranger(running: Running) -> None:
    assert running.send("POST", "/predictions/retro", {"smiles": []})[:2] == (200, [])
    assert running.send("POST", "/predictions/nobody", {"smiles": ["C"]})[0] == 404


def test_scores_are_probabilities(running: Running, engines: dict[str, Engine]) -> None:
    (answer,) = running.send("POST", "/predictions/retro", {"smiles": ["CCN"]})[1]
    first = next(one for one in engines["retro"].predict("CCN", n=10).hypotheses if one.valid)
    assert answer["scores"][0] == pytest.approx(math.exp(first.log_prob))
