"""Before the replicas: who dies over a request, who is full and who does not come, and what the client hears of it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("fastapi")

import uvicorn
from serving import HURRY, Running, until

from chemspec.cluster import door as at_door
from chemspec.service.limits import Limits
from chemspec.service.metrics import Metrics


class DeadError(Exception):
    """A replica is no more."""


class FullError(Exception):
    """All have enough to do."""


class Fake:
    """Replicas that do what a list says, one after the other."""

    died = (DeadError,)
    full = (FullError,)

    def __init__(self, *acts: str) -> None:
        self.acts = list(acts)
        self.asked: list[tuple[str, bytes]] = []
        self.cancelled = 0
        self.gone = threading.Event()

    def ask(self, scope: Any, body: bytes) -> Any:
        self.asked.append((scope["path"], body))
        return _Answer(self, self.acts.pop(0))

    async def metrics(self) -> list[tuple[str, bytes]]:
        if "dies" in self.acts:
            raise DeadError
        numbers = Metrics()
        numbers.passes.labels("retro").inc(7)
        numbers.requests.labels("/v1/predict", "200").inc(9)
        return [("a", numbers.text()), ("b", numbers.text())]


class _Answer:
    def __init__(self, replicas: Fake, act: str) -> None:
        self._replicas, self._act = replicas, act

    def cancel(self) -> None:
        self._replicas.cancelled += 1

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        kind = b"text/event-stream" if "stream" in self._act else b"application/json"
        if self._act == "dies":
            raise DeadError
        if self._act == "full":
            raise FullError
        if self._act == "waits":
            try:
                await asyncio.Event().wait()
            finally:
                self._replicas.gone.set()
        yield {"type": at_door.TOLD, "route": "/v1/x", "told": {"model": "retro"}}
        headers = [(b"content-type", kind), (b"x-request-id", b"its own")]
        yield {"type": "http.response.start", "status": 200, "headers": headers}
        if "begins" in self._act:
            yield {"type": "http.response.body", "body": b"event: pass\ndata: 1\n\n", "more_body": True}
            raise DeadError
        yield {"type": "http.response.body", "body": b'{"fine": true}'}
        if self._act == "answers and dies":
            raise DeadError


@contextmanager
def standing(replicas: Fake, **limits: Any) -> Iterator[Running]:
    removed: list[bool] = []
    door = at_door.Door(["retro"], Limits(**limits), lambda: replicas, lambda: removed.append(True))
    ready = threading.Event()
    server = uvicorn.Server(
        uvicorn.Config(door.create(ready.set), port=0, log_config=None, access_log=False, ws="none")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started and ready.is_set(), "the door")
    try:
        yield Running(door, server, server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(HURRY)
    assert removed


def test_what_a_replica_took_when_it_died_is_answered_by_another_one(caplog: pytest.LogCaptureFixture) -> None:
    replicas = Fake("dies", "dies", "answers")
    with caplog.at_level(logging.INFO, "chemspec.service"), standing(replicas) as running:
        status, document, headers = running.send("POST", "/v1/predict", {"queries": "CCO"})
    assert (status, document) == (200, {"fine": True})
    assert replicas.asked == [("/v1/predict", json.dumps({"queries": "CCO"}).encode())] * 3
    assert len(headers["x-request-id"]) == 16  # the door's, which its log has
    (line,) = [record.told for record in caplog.records if record.message == "request"]  # type: ignore[attr-defined]
    assert (line["route"], line["model"], line["died"], line["status"]) == ("/v1/x", "retro", 2, 200)


def test_a_death_after_the_answer_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "chemspec.service"), standing(Fake("answers and dies", "answers")) as running:
        assert running.send("GET", "/v1/models")[1] == {"fine": True}
        assert running.send("GET", "/v1/models")[1] == {"fine": True}
    for record in caplog.records:
        assert "error" not in getattr(record, "told", {})


@pytest.mark.parametrize(
    ("acts", "code"), [(["dies"] * at_door.TRIES, "lost"), (["full"], "queue_full"), (["waits"], "no_replica")]
)
def test_what_no_replica_answers_is_told_with_when_to_come_back(
    acts: list[str], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_door, "MARGIN", 0.0)
    replicas = Fake(*acts)
    with standing(replicas, timeout=0.1) as running:
        status, document, headers = running.send("POST", "/v1/predict", {})
        assert (status, document["code"]) == (503, code)
        assert int(headers["retry-after"]) > 0
    assert not replicas.acts and replicas.cancelled == len(acts)


def test_a_stream_whose_replica_dies_ends_with_an_error() -> None:
    replicas = Fake("stream begins")
    with standing(replicas) as running:
        _, text, _ = running.send("GET", "/v1/stream")
    *_, last = text.strip().split("\n\n")
    name, data = last.split("\n")
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: "))["code"] == "lost"
    assert len(replicas.asked) == 1  # its passes are out: it cannot begin again


def test_who_leaves_is_answered_no_further() -> None:
    replicas = Fake("waits", "answers")
    with standing(replicas) as running:
        import socket

        with socket.create_connection(("127.0.0.1", running.port)) as client:
            client.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
            until(lambda: replicas.asked, "the question")
        until(replicas.gone.is_set, "the end")
        until(lambda: running.count("requests_total", route="unknown", status="499"), "the count")
        assert running.send("GET", "/v1/models")[0] == 200


def test_keys_and_sizes_are_looked_at_before_anybody_is_asked() -> None:
    replicas = Fake("answers")
    with standing(replicas, keys=frozenset({"secret"}), body=100) as running:
        assert running.send("GET", "/v1/models")[0] == 401
        told = {"X-API-Key": "secret"}
        assert running.send("POST", "/v1/predict", b"x" * 101, told)[0] == 413
        assert running.send("GET", "/v1/models", headers=told)[0] == 200
    assert len(replicas.asked) == 1


def test_numbers_of_all_replicas_are_told_apart() -> None:
    with standing(Fake()) as running:
        _, text, _ = running.send("GET", "/metrics")
    lines = text.splitlines()
    for name in "ab":
        assert f'chemspec_passes_total{{model="retro",replica="{name}"}} 7.0' in lines
    assert lines.count("# TYPE chemspec_passes_total counter") == 1
    with standing(Fake("dies")) as running:
        assert running.send("GET", "/metrics")[0] == 503
    assert not any(line.startswith("chemspec_requests_total{") and 'replica="a"' in line for line in lines)


def test_nothing_is_taken_before_the_start_and_after_the_stop() -> None:
    held = threading.Event()

    def deploy() -> Any:
        held.wait(HURRY)
        return Fake("answers")

    door = at_door.Door(["retro"], Limits(), deploy, lambda: None)
    ready = threading.Event()

    async def ask(path: str = "/v1/models") -> tuple[int, str]:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "path": path, "headers": [], "client": None, "method": "GET"}
        await application(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"]).get("code", "")

    application = door.create(ready.set)

    async def course() -> None:
        async with application.router.lifespan_context(application):
            assert await ask() == (503, "loading") and await ask("/healthz") == (200, "")
            held.set()
            await asyncio.to_thread(ready.wait, HURRY)
            door.stopping = True
            assert await ask() == (503, "stopping")

    asyncio.run(course())


@pytest.mark.parametrize("stopping", [False, True])
def test_why_there_are_no_replicas_is_kept_unless_they_were_stopped(stopping: bool) -> None:
    def deploy() -> Any:
        door.stopping = stopping
        if stopping:
            tried.set()
        raise RuntimeError("no room")

    calls: list[bool] = []
    tried = threading.Event()
    door = at_door.Door(["retro"], Limits(), deploy, lambda: None)

    async def course() -> None:
        application = door.create(lambda: calls.append(True))
        async with application.router.lifespan_context(application):
            while not (calls or tried.is_set()):
                await asyncio.sleep(0.005)

    asyncio.run(course())
    assert (str(door.problem), calls) == (("None", []) if stopping else ("no room", [True]))
