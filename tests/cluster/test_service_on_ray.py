"""The service on a real Ray of two nodes: the answers of an engine, and none lost when a replica is killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import HURRY, Load, Process, until
from small import QUERIES, tiny_folder

from chemspec.client import Client, Result, ServiceError
from chemspec.engine.engine import Engine
from chemspec.system import extras

pytestmark = [
    pytest.mark.skipif(not extras.installed("ray"), reason="the extra ray is not installed"),
    pytest.mark.nightly,  # minutes on two cores; test_door.py has the same laws without Ray
]
START = 4 * HURRY  # of Ray Serve and two processes that import torch


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("models") / "retro", task="retro", seed=4)


@pytest.fixture(scope="module")
def expected(model: Path) -> dict[str, list[tuple[str, float]]]:
    results = Engine.load(model, device="cpu", threads=1).predict(QUERIES, n=3, max_len=30, decoder="beam")
    return {one.query: [(answer.smiles, answer.log_prob) for answer in one.hypotheses] for one in results}


@pytest.fixture(scope="module")
def service(nodes: Any, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("service")
    options = ["--ray", nodes.address, "--min-engines", "2", "--device", "cpu", "--runtime", "native"]
    with Process(folder, [model], *options, seconds=START) as process:
        yield process


def told(result: Result) -> list[tuple[str, float]]:
    return [(answer.smiles, answer.log_prob) for answer in result.answers]


def by_replica(client: Client, name: str) -> dict[str, float]:
    """A number of /metrics, by the replicas that tell it."""
    import http.client

    from prometheus_client.parser import text_string_to_metric_families

    connection = http.client.HTTPConnection("127.0.0.1", int(client.url.rpartition(":")[2]), timeout=HURRY)
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    found: dict[str, float] = {}
    if response.status == 503:  # for a moment after a death
        return found
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name == f"chemspec_{name}":
                found[one.labels["replica"]] = found.get(one.labels["replica"], 0.0) + one.value
    return found


def test_the_same_routes_answer_as_an_engine_does(
    service: Process, model: Path, expected: dict[str, list[tuple[str, float]]]
) -> None:
    client = Client(service.url)
    assert client.request("GET", "/readyz", None) == {"status": "ready"}
    for result in client.predict([*QUERIES, "CC("], task="retro", n=3, max_len=30):
        assert result.status == "invalid" if result.query == "CC(" else told(result) == expected[result.query]
    *passes, last = client.stream(QUERIES[0], task="retro", n=3, max_len=30)
    assert isinstance(last, Result) and told(last) == expected[QUERIES[0]]
    assert len(passes) == last.passes
    number = client.request("POST", "/rxn/api/api/v1/retrosynthesis/rs", {"product": "CCO"})["payload"]["id"]
    for _ in range(4):  # whichever replica is asked knows the number
        path = f"/rxn/api/api/v1/retrosynthesis/{number}"
        until(lambda path=path: client.request("GET", path, None)["payload"]["status"] == "SUCCESS")
    with pytest.raises(ServiceError, match="there is no model 'nobody'"):
        client.predict("CCO", model="nobody")

    from chemspec.service import api
    from chemspec.service.service import Service

    routes = api.create(Service(list)).openapi()
    assert json.dumps(client.request("GET", "/openapi.json", None)) == json.dumps(routes)


def test_a_replica_that_is_killed_loses_no_answer(
    nodes: Any, service: Process, expected: dict[str, list[tuple[str, float]]]
) -> None:
    """Nobody asks twice here: what the dead one had taken is answered by the other one."""
    import ray

    client = Client(service.url)
    load = Load(service.url, 8, patience=0.0)
    try:
        until(lambda: len(load.answered) > 40, "some answers")
        both = until(lambda: len(found := by_replica(client, "queries_total")) == 2 and found, "two replicas")
        with ray.init(address=nodes.address, namespace="serve", log_to_driver=False):
            named = ray.util.list_named_actors(all_namespaces=True)
            victim = next(one["name"] for one in named if "SERVE_REPLICA" in one["name"])
            ray.kill(ray.get_actor(victim, "serve"), no_restart=True)
        before = len(load.answered)
        until(lambda: len(load.answered) > before + 100 or load.failed, "answers after the death")
        # Another one takes its place, and works.
        until(lambda: len(set(by_replica(client, "queries_total")) - set(both)) == 1, "a new replica", START)
    finally:
        load.end()
    assert not load.failed
    for result in load.answered:
        assert told(result) == expected[result.query]


def test_a_stop_finishes_what_was_accepted(service: Process, expected: dict[str, list[tuple[str, float]]]) -> None:
    load = Load(service.url, 8, patience=0.0)
    until(lambda: len(load.answered) > 20, "some answers")
    assert service.stop(signal.SIGTERM) == 0
    load.end()
    for result in load.answered:
        assert told(result) == expected[result.query]
    for error in load.failed:
        assert isinstance(error, ServiceError)
        assert error.code == "stopping" or "cannot be reached" in str(error), error
    lines = [json.loads(line) for line in service.log().splitlines() if line.startswith("{")]
    died = [line for line in lines if line.get("died")]
    assert len(died) <= 8 and all(line["status"] == 200 for line in died)
    statuses = [line["status"] for line in lines if line.get("route") == "/v1/predict"]
    assert set(statuses) <= {200, 404}  # of the model that there is not
