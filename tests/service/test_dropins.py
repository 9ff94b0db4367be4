"""The protocols of ASKCOS v2 and of the rxn4chemistry client, and what the latter was promised."""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from serving import Gated, Running, serving, until
from small import QUERIES

from chemspec.engine.engine import Engine

pytest.importorskip("fastapi")

RXN = "/rxn/api/api/v1"


def valid(engine: Engine, query: str, n: int) -> list[str]:
    """The different valid answers of a model."""
    result = engine.predict(query, n=n, decoder="greedy" if n == 1 else "beam")
    return list(dict.fromkeys(one.canonical for one in result.hypotheses if one.valid))


def products_of(found: dict[str, Any]) -> list[str]:
    """The products that a payload tells."""
    return [one["productMolecule"]["smiles"] for one in found["attempts"]]


# --- ASKCOS --------------------------------------------------------------------------------------


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


# --- rxn4chemistry -------------------------------------------------------------------------------


def post(running: Running, path: str, body: Any) -> dict[str, Any]:
    status, document, _ = running.send("POST", RXN + path, body)
    assert status in (200, 201), document
    payload: dict[str, Any] = document["payload"]
    return payload


def fetch(running: Running, path: str, wait: float = 10.0) -> dict[str, Any]:
    status, document, _ = running.send("GET", f"{RXN}{path}?wait={wait}")
    assert status == 200, document
    payload: dict[str, Any] = document["payload"]
    return payload


def test_rxn_answers_a_forward_question(running: Running, engines: dict[str, Engine]) -> None:
    number = post(running, "/predictions/pr", {"reactants": "C(C)N", "aiModel": "2020-08-10"})["id"]
    found = fetch(running, f"/predictions/{number}")
    assert found["status"] == "SUCCESS"
    assert products_of(found) == valid(engines["forward"], "CCN", 5) != []
    assert all(one["smiles"] == f"CCN>>{one['productMolecule']['smiles']}" for one in found["attempts"])


def test_rxn_answers_batches(running: Running, engines: dict[str, Engine]) -> None:
    queries = ["CCN", *QUERIES]
    task = post(running, "/predictions/pr/batch", {"reactants": [*queries, "CC("]})
    assert task["task_status"] == "WAITING"
    found = fetch(running, f"/predictions/pr/batch/{task['task_id']}")
    assert found["task"] == {"task_id": task["task_id"], "status": "DONE"}
    for query, one in zip(queries, found["result"]["predictions"], strict=False):
        products = valid(engines["forward"], query, 1)
        assert products or query != "CCN"
        assert one["smiles"].split(">>")[1] == (products[0] if products else "")
    assert "never closed" in found["result"]["predictions"][-1]["error"]

    task = post(running, "/predictions/pr/batch_topn", {"precursors_lists": [["C", "CO"], ["CCN"]], "topn": 3})
    (one, other) = fetch(running, f"/predictions/pr/batch_topn/{task['task_id']}")["result"]["predictions"]
    assert [".".join(answer["smiles"]) for answer in one["results"]] == valid(engines["forward"], "C.CO", 3)
    assert [".".join(answer["smiles"]) for answer in other["results"]] == valid(engines["forward"], "CCN", 3)


def test_rxn_answers_a_retro_question_in_one_step(running: Running, engines: dict[str, Engine]) -> None:
    number = post(running, "/retrosynthesis/rs", {"product": "CCN", "parameters": {"nbeams": 8, "fap": 0.6}})["id"]
    found = fetch(running, f"/retrosynthesis/{number}")
    trees = [one["tree"] for one in found["sequences"]]
    sets = [".".join(leaf["smiles"] for leaf in tree["children"]) for tree in trees]
    assert sets == valid(engines["retro"], "CCN", 8) != []
    assert all(tree["smiles"] == "CCN" for tree in trees)


def test_rxn_says_what_is_wrong(running: Running) -> None:
    status, refusal, _ = running.send("POST", f"{RXN}/predictions/pr", {"reactants": "CC("})
    assert status == 422 and "never closed" in refusal["detail"]
    number = post(running, "/predictions/pr", {"reactants": "CCN"})["id"]
    assert running.send("GET", f"{RXN}/predictions/{'0' * 32}")[0] == 404
    assert running.send("GET", f"{RXN}/retrosynthesis/{number}")[0] == 404  # the number of another kind of question


def test_a_number_is_fetched_before_and_after_its_answer(engines: dict[str, Engine]) -> None:
    gated = Gated(engines["forward"])
    with serving([{"forward": gated}]) as service:
        number = post(service, "/predictions/pr", {"reactants": "CCO"})["id"]
        assert fetch(service, f"/predictions/{number}", wait=0)["status"] == "PROCESSING"
        gated.gate.set()
        assert fetch(service, f"/predictions/{number}")["status"] == "SUCCESS"


def test_a_full_queue_promises_nothing(engines: dict[str, Engine], tmp_path: Path) -> None:
    gated = Gated(engines["forward"])
    with serving([{"forward": gated}], tmp_path / "tasks", queue=1, queries=1) as service:
        post(service, "/predictions/pr", {"reactants": "CCO"})
        until(lambda: gated.batches, "a batch")
        post(service, "/predictions/pr", {"reactants": "CCN"})
        assert service.send("POST", f"{RXN}/predictions/pr", {"reactants": "CCC"})[0] == 429


def test_what_was_promised_is_kept_by_the_next_service(engines: dict[str, Engine], tmp_path: Path) -> None:
    gated = Gated(engines["forward"])
    numbers = []
    with serving([{"forward": gated}], tmp_path / "tasks", grace=0.05, batch_size=1) as service:
        for query in ("CCO", "CCN", "CCF"):
            numbers.append(post(service, "/predictions/pr", {"reactants": query})["id"])
            until(lambda: gated.batches, "the first")
        service.service.stopping = True
        service.server.should_exit = True
        until(lambda: service.service.waiting == 0, "the end of its patience")
    assert len(gated.batches) == 1  # the others were not even begun
    with serving([engines], tmp_path / "tasks", queue=1, queries=1) as service:  # and come back one by one
        for number, query in zip(numbers, ("CCO", "CCN", "CCF"), strict=True):
            found = fetch(service, f"/predictions/{number}")
            assert products_of(found) == valid(engines["forward"], query, 5)


RXN_PYTHON = os.environ.get("CHEMSPEC_RXN_PYTHON", "")


@pytest.mark.skipif(not RXN_PYTHON, reason="CHEMSPEC_RXN_PYTHON names no Python with rxn4chemistry")
def test_the_unmodified_rxn_client_is_served(running: Running, engines: dict[str, Engine]) -> None:
    code = f"""
import json, time
from rxn4chemistry import RXN4ChemistryWrapper
client = RXN4ChemistryWrapper(api_key="any", base_url="{running.url}")
client.create_project("test")
pause = lambda: time.sleep(0.001)  # its own limit of calls
pause(); one = client.predict_reaction("CCN")
pause(); one = client.get_predict_reaction_results(one["prediction_id"])["response"]["payload"]["attempts"]
pause(); many = client.predict_reaction_batch(["CCO", "CCN"])
pause(); many = client.get_predict_reaction_batch_results(many["task_id"])["predictions"]
pause(); top = client.predict_reaction_batch_topn([["C", "CO"]], topn=2)
pause(); top = client.get_predict_reaction_batch_topn_results(top["task_id"])["predictions"]
pause(); retro = client.predict_automatic_retrosynthesis("CCN")
pause(); retro = client.get_predict_automatic_retrosynthesis_results(retro["prediction_id"])
print(json.dumps([len(one), len(many), len(top), retro["status"], len(retro["retrosynthetic_paths"])]))
"""
    words = [RXN_PYTHON, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    paths = len(valid(engines["retro"], "CCN", 10))
    assert done.stdout.strip() == f'[{len(valid(engines["forward"], "CCN", 5))}, 2, 1, "SUCCESS", {paths}]'


def test_scores_are_probabilities(running: Running, engines: dict[str, Engine]) -> None:
    (answer,) = running.send("POST", "/predictions/retro", {"smiles": ["CCN"]})[1]
    first = next(one for one in engines["retro"].predict("CCN", n=10).hypotheses if one.valid)
    assert answer["scores"][0] == pytest.approx(math.exp(first.log_prob))
