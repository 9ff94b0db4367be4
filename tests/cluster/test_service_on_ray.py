"""The service on a real Ray of two nodes: the answers of an engine, and none lost when a replica is killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.serving import HURRY, Load, Process, until
from helpers.small import QUERIES, tiny_folder

from chemspec.client import Client, Result, ServiceError
from chemspec.engine.engine import Engine
from chemspec.system import extras

pytestmark = [
    pytest.mark.skipif(not extras.is_installed("ray"), reason="the extra ray is not installed"),
    pytest.mark.nightly,  # minutes on two cores
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


def test_the_same_routes_answer_as_an_engine_does(
    service: Process, model: Path, expected: dict[str, list[tuple[str, float]]]
) -> None:
    client = Client(service.url)
    assert client.request("GET", "/readyz", None) == {"status": "ready"}
    for result in client.predict([*QUERIES, "CC("], task="retro", n=3, max_len=30):
        assert result.status == "invalid" if result.query == "CC(" else told(result) == expected[result.query]
    with pytest.raises(ServiceError, match="there is no model 'nobody'"):
        client.predict("CCO", model="nobody")

    from starlette.testclient import TestClient

    from chemspec.service import api
    from chemspec.service.service import Service

    expected_document = TestClient(api.create_app(Service({})), base_url="http://localhost").get("/openapi.json").json()
    assert client.request("GET", "/openapi.json", None) == expected_document


def test_clients_that_ask_again_notice_no_killed_replica(
    nodes: Any, service: Process, expected: dict[str, list[tuple[str, float]]]
) -> None:
    import ray

    load = Load(service.url, 8, retry_seconds=HURRY)
    try:
        until(lambda: len(load.answered) > 40, "some answers")
        with ray.init(address=nodes.address, namespace="serve", log_to_driver=False):
            replicas = [name for name in names(ray) if "SERVE_REPLICA" in name]
            ray.kill(ray.get_actor(replicas[0], "serve"), no_restart=True)
            before = len(load.answered)
            until(lambda: len(load.answered) > before + 100 or load.failed, "answers after the death")
            until(lambda: len({*names(ray)} - {*replicas}) > 1, "a new replica", START)
    finally:
        load.end()
    assert not load.failed
    for result in load.answered:
        assert told(result) == expected[result.query]


def names(ray: Any) -> list[str]:
    return [one["name"] for one in ray.util.list_named_actors(all_namespaces=True)]


def test_a_stop_finishes_what_was_accepted(service: Process, expected: dict[str, list[tuple[str, float]]]) -> None:
    load = Load(service.url, 8, retry_seconds=0.0)
    until(lambda: len(load.answered) > 20, "some answers")
    assert service.stop(signal.SIGTERM) == 0
    load.end()
    for result in load.answered:
        assert told(result) == expected[result.query]
    for error in load.failed:
        assert isinstance(error, ServiceError) and error.status in (0, 404, 503), error
