"""Searches for routes over HTTP: jobs with progress, an end, and an owner."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from helpers import rawhttp, toy
from helpers.serving import HURRY, Running, serving, until

pytest.importorskip("fastapi")
pytest.importorskip("syntheseus")

from chemspec.plan.expand import Expander
from chemspec.plan.search import plan
from chemspec.plan.settings import PlanSettings
from chemspec.service import plan_routes, plans
from chemspec.service.plan_schema import Plan
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

ASK = {"target": toy.AMIDE, "stock": ["mine.smi"], "check": False}


class GatedModel:
    """The toy's model, which answers while its gate is open."""

    def __init__(self) -> None:
        self.toy, self.full_digest, self.dtype = toy.retro(), "toy", "fp32"
        self.gate, self.began = threading.Event(), threading.Event()

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        self.began.set()
        assert self.gate.wait(HURRY)
        return self.toy.predict(queries, settings)


@pytest.fixture
def planning(
    tmp_path: Path, engines: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Running, GatedModel]]:
    """A service with a stock list of the lab, whose searches use the toy."""
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    (tmp_path / "stock").mkdir()
    (tmp_path / "stock" / "mine.smi").write_text("# title: Shelf\n" + "\n".join(toy.BOUGHT))
    model = GatedModel()
    monkeypatch.setattr(plan_routes, "Expander", lambda *_, **__: Expander(model, keep=False))
    with serving(engines, api_keys=frozenset({"mine", "theirs"})) as service:
        yield service, model
        model.gate.set()


def send(service: Running, method: str, path: str, body: Any = None, key: str = "mine") -> tuple[int, Any]:
    return service.send(method, path, body, {"X-API-Key": key})[:2]


def ended(service: Running, name: str) -> dict[str, Any]:
    def state() -> Any:
        document = send(service, "GET", f"/v1/plan/{name}")[1]
        return document if document["state"] in plans.ENDED else None

    return until(state, "the end of the plan")


def events(service: Running, name: str, follows: threading.Event) -> list[tuple[str, dict[str, Any]]]:
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=HURRY)
    try:
        connection.request("GET", f"/v1/plan/{name}/events", headers={"X-API-Key": "mine"})
        response = connection.getresponse()
        assert response.getheader("content-type", "").startswith("text/event-stream")
        follows.set()
        parts = response.read().decode().strip().split("\n\n")
    finally:
        connection.close()
    lines = [part.split("\n") for part in parts]
    return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in lines]


def test_a_plan_is_that_of_the_library_and_typed(planning: tuple[Running, GatedModel], tmp_path: Path) -> None:
    service, model = planning
    model.gate.set()
    status, job = send(service, "POST", "/v1/plan", ASK)
    assert status == 202 and job["plan"] is None and job["target"] == toy.AMIDE
    document = ended(service, job["id"])
    assert document["state"] == "done" and document["plan"]["status"] == "solved"
    own = plan(toy.AMIDE, Expander(toy.retro(), keep=False), toy.stock(tmp_path), PlanSettings())
    routes = document["plan"]["routes"]
    assert [route["scores"]["score"] for route in routes] == pytest.approx([route.score for route in own.routes])
    assert document["progress"]["expansions"] == own.expansions
    typed = Plan.model_validate(document["plan"]).model_dump(by_alias=True, exclude_unset=True)
    assert typed == document["plan"]
    leaf = next(node for node in walk(routes[0]) if node.get("in_stock"))
    assert leaf["metadata"]["stock"].startswith("mine.smi")


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("children", ()):
        yield from walk(child)


def test_progress_comes_as_events_and_the_plan_with_the_last(planning: tuple[Running, GatedModel]) -> None:
    service, model = planning
    job = send(service, "POST", "/v1/plan", ASK)[1]
    until(lambda: send(service, "GET", f"/v1/plan/{job['id']}")[1]["state"] == "running", "the start")
    found: list[Any] = []
    follows = threading.Event()
    follower = threading.Thread(target=lambda: found.extend(events(service, job["id"], follows)))
    follower.start()
    assert follows.wait(HURRY)
    model.gate.set()
    follower.join(HURRY)
    kinds = [kind for kind, _ in found]
    assert kinds[-1] == "end" and set(kinds[:-1]) <= {"progress"} and kinds[:-1]
    assert found[0][1]["plan"] is None and found[-1][1]["plan"]["status"] == "solved"
    expansions = [document["progress"]["expansions"] for _, document in found]
    assert expansions == sorted(expansions) and expansions[-1] > 0
    assert [kind for kind, _ in events(service, job["id"], threading.Event())] == ["end"], "of a plan that has ended"


def test_of_one_client_few_connections_follow_plans(
    planning: tuple[Running, GatedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is held until its plan ends, so that a thousand of them would leave none for others."""
    monkeypatch.setattr(plans, "MAX_FOLLOWED", 8)
    service, model = planning
    job = send(service, "POST", "/v1/plan", ASK)[1]
    path = f"/v1/plan/{job['id']}/events"
    with ExitStack() as opened:
        for _ in range(2):
            connection = opened.enter_context(rawhttp.connected(service.port))
            connection.sendall(rawhttp.head(path, {"Host": "localhost", "X-API-Key": "mine"}))
            assert b"200" in connection.recv(100)
        status, document = send(service, "GET", path)
        assert (status, document["code"]) == (429, "queue_full")
        assert send(service, "GET", f"/v1/plan/{job['id']}")[0] == 200
    until(lambda: not service.service.plans.followed.total(), "their end")
    model.gate.set()
    assert events(service, job["id"], threading.Event())[-1][0] == "end"
    until(lambda: not service.service.plans.followed.total(), "the end of the last one")


def test_a_stopped_plan_keeps_what_it_has_and_is_forgotten_when_deleted_again(
    planning: tuple[Running, GatedModel],
) -> None:
    service, model = planning
    running, waiting = (send(service, "POST", "/v1/plan", ASK)[1]["id"] for _ in range(2))
    assert model.began.wait(HURRY)
    assert send(service, "GET", f"/v1/plan/{waiting}")[1]["state"] == "waiting", "one thread is for one client"
    document = send(service, "DELETE", f"/v1/plan/{waiting}")[1]
    assert (document["state"], document["plan"]) == ("stopped", None)
    assert send(service, "DELETE", f"/v1/plan/{running}")[1]["state"] == "running"
    model.gate.set()
    document = ended(service, running)
    assert document["state"] == "stopped" and "stopped" in document["message"] and document["plan"]["target"]
    assert len(model.toy.asked) == 1, "no step after the one that was under way"
    assert send(service, "DELETE", f"/v1/plan/{running}")[0] == 200
    status, problem = send(service, "GET", f"/v1/plan/{running}")
    assert (status, problem["code"]) == (404, "unknown_plan")


def test_another_client_has_no_access(planning: tuple[Running, GatedModel]) -> None:
    service, _ = planning
    name = send(service, "POST", "/v1/plan", ASK)[1]["id"]
    for method, path in (("GET", name), ("DELETE", name), ("GET", f"{name}/events")):
        status, problem = send(service, method, f"/v1/plan/{path}", key="theirs")
        assert (status, problem["code"]) == (404, "unknown_plan")


def test_a_client_has_so_many_plans_and_no_more(
    planning: tuple[Running, GatedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, model = planning
    for _ in range(plans.MAX_PLANS // 2):
        assert send(service, "POST", "/v1/plan", ASK)[0] == 202
    status, problem = send(service, "POST", "/v1/plan", ASK)
    assert (status, problem["code"]) == (429, "queue_full")
    model.gate.set()
    assert send(service, "POST", "/v1/plan", ASK, key="theirs")[0] == 202


def test_a_plan_ends_at_its_deadline(planning: tuple[Running, GatedModel]) -> None:
    service, model = planning
    late = send(service, "POST", "/v1/plan", {**ASK, "timeout": 1e-6})[1]["id"]
    assert ended(service, late)["state"] == "failed" and "1e-06 s" in ended(service, late)["message"]
    model.gate.set()
    soon = send(service, "POST", "/v1/plan", {**ASK, "timeout": 0.3})[1]["id"]
    assert ended(service, soon)["state"] in ("done", "failed")


def test_a_stop_of_the_service_ends_plans(
    tmp_path: Path, engines: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = GatedModel()
    monkeypatch.setattr(plan_routes, "Expander", lambda *_, **__: Expander(model, keep=False))
    with serving(engines) as service:
        job = service.send("POST", "/v1/plan", {**ASK, "stock": ["common"]})[1]
        assert model.began.wait(HURRY)
        service.service.begin_stop()
        model.gate.set()
        until(lambda: service.service.plans.jobs[job["id"]].state == "stopped", "the end")
        assert service.send("POST", "/v1/plan", {**ASK, "stock": ["common"]})[0] == 503
    assert len(model.toy.asked) == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"order": "beauty"}, 422, "settings"),
        ({"avoid": ["C("]}, 422, "settings"),
        ({"through": "C1CC"}, 422, "settings"),
        ({"stock": ["/etc/passwd"]}, 422, "unknown_stock"),
        ({"stock": ["../stock/mine.smi"]}, 422, "unknown_stock"),
        ({"model": "forward"}, 400, "wrong_task"),
        ({"expansions": 0}, 422, "malformed"),
        ({"expansion": 3}, 422, "malformed"),
    ],
)
def test_faulty_plans_are_refused(
    planning: tuple[Running, GatedModel], body: dict[str, Any], status: int, code: str
) -> None:
    assert (lambda answer: (answer[0], answer[1]["code"]))(send(planning[0], "POST", "/v1/plan", ASK | body)) == (
        status,
        code,
    )


def test_what_cannot_be_planned_says_why(planning: tuple[Running, GatedModel]) -> None:
    service, model = planning
    model.gate.set()
    for target, words in (("C1CC", "ring"), ("CCO.CC", "several molecules")):
        document = ended(service, send(service, "POST", "/v1/plan", ASK | {"target": target})[1]["id"])
        assert document["state"] == "done" and document["plan"]["status"] == "refused"
        assert words in document["message"]
