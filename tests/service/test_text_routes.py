"""What a text means, and whether a model expects a reaction, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.serving import Running, serving

from chemspec.client import ServiceError
from chemspec.engine.engine import Engine
from chemspec.review.reaction_check import CHECK_SETTINGS, check_reaction

pytest.importorskip("fastapi")
REACTION = "CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1"


def test_names_are_read_and_faults_have_their_place(running: Running) -> None:
    texts = ["aspirin", "THF, NaH", "CC(=O)O", "C1CC", ""]
    results = running.client().request("POST", "/v1/names", {"texts": texts})["results"]
    assert [result["text"] for result in results] == texts
    assert results[0]["smiles"] == "CC(=O)Oc1ccccc1C(=O)O"
    assert set(results[1]["smiles"].split(".")) == {"C1CCOC1", "[Na+]", "[H-]"} or "[NaH]" in results[1]["smiles"]
    assert (results[2]["smiles"], results[2]["fault"]) == ("CC(=O)O", None)
    assert results[3]["smiles"] == "" and results[3]["fault"]["kind"] == "ring"
    assert results[3]["fault"]["start"] < results[3]["fault"]["end"] and results[4]["fault"]["kind"] == "empty"
    (single,) = running.client().request("POST", "/v1/names", {"texts": "ethanol", "task": "retro"})["results"]
    assert single["smiles"] == "CCO"


@pytest.mark.parametrize("task", ["forward", "retro"])
def test_a_reaction_is_checked_as_in_the_library(running: Running, engines: dict[str, Engine], task: str) -> None:
    document: dict[str, Any] = running.client().request("POST", "/v1/check", {"reaction": REACTION, "task": task})
    own = check_reaction(engines[task], REACTION, CHECK_SETTINGS).document()
    for name in ("task", "query", "expected", "rank", "agrees", "sentence", "problem"):
        assert document[name] == own[name], name
    assert document["model"] == task
    assert document["result"]["hypotheses"] == [
        {**answer, "log_prob": pytest.approx(answer["log_prob"], abs=1e-3)}
        | {name: pytest.approx(answer[name], rel=1e-3) for name in ("probability", "model_probability")}
        for answer in own["result"]["hypotheses"]
    ]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/check", {"reaction": "CCO", "task": "forward"}, 422, "no_reaction"),
        ("/v1/check", {"reaction": "C(>>CC", "task": "forward"}, 422, "no_reaction"),
        ("/v1/check", {"reaction": REACTION}, 400, "no_task"),
        ("/v1/check", {"reaction": REACTION, "task": "forward", "n": 3}, 422, "malformed"),
        ("/v1/names", {"texts": ["C"] * 5}, 413, "too_many_queries"),
        ("/v1/names", {}, 422, "malformed"),
    ],
)
def test_faulty_questions_are_refused(
    engines: dict[str, Engine], path: str, body: dict[str, Any], status: int, code: str
) -> None:
    with serving(engines, queries=4) as service, pytest.raises(ServiceError) as error:
        service.client().request("POST", path, body)
    assert (error.value.status, error.value.code) == (status, code)


def test_the_methods_of_generated_clients_have_names(running: Running) -> None:
    paths = running.client().request("GET", "/openapi.json")["paths"]
    names = {path: [operation["operationId"] for operation in methods.values()] for path, methods in paths.items()}
    assert names["/v1/predict"] == ["predict"] and names["/v1/check"] == ["check"] and names["/v1/names"] == ["names"]
    every = [name for of_path in names.values() for name in of_path]
    assert len(every) == len(set(every))
