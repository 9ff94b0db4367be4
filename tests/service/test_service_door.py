"""What stands between the port and the routes: names, headers, time and connections. Real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from helpers import rawhttp
from helpers.case_tables import table
from helpers.serving import Gated, Process, Running, serving, until
from helpers.watched import Watch

pytest.importorskip("fastapi")

from chemspec.engine.engine import Engine
from chemspec.service import api, guard, server
from chemspec.system import connections

QUESTION = rawhttp.post("/v1/predict", b'{"queries": "CCO", "task": "retro", "n": 1, "max_len": 8}')


def test_a_request_of_another_site_is_refused(running: Running) -> None:
    own = f"127.0.0.1:{running.port}"
    before = running.count("refused_requests_total", reason="host")
    rebound = {"Host": f"evil.example:{running.port}", "Origin": f"http://evil.example:{running.port}"}
    for path in ("/healthz", "/v1/models", "/openapi.json"):
        assert rawhttp.get(running.port, path, {"Host": own})[0] == 200
        assert rawhttp.get(running.port, path, {"Host": own, "Origin": f"http://{own}"})[0] == 200
        for headers in (rebound, {"Host": rebound["Host"]}):
            status, text = rawhttp.get(running.port, path, headers)
            assert status == 403 and '"code":"host"' in text and "--allowed-host evil.example" in text
        status, text = rawhttp.get(running.port, path, {"Host": own, "Origin": "http://evil.example"})
        assert status == 403 and '"code":"origin"' in text
        for mode in ("no-cors", "navigate"):  # a picture, a link: without an Origin
            headers = {"Host": own, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode}
            assert rawhttp.get(running.port, path, headers)[0] == 403
    assert rawhttp.get(running.port, "/healthz", {}, version="1.0")[0] == 200  # the probes of some proxies
    assert running.count("refused_requests_total", reason="host") == before + 6


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"X-Line: " + 90 * b"x" + b"\r\n"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Value: ", 1000 * b"x"),
        (b"GET /", 1000 * b"x"),
        (
            b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n",
            b"X-Trailer: " + 87 * b"x" + b"\r\n",
        ),
        (b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;", 1000 * b"x"),
    ],
    ids=["lines", "value", "address", "trailers", "extension"],
)
def test_headers_without_an_end_are_refused_before_they_take_memory(
    running: Running, start: bytes, piece: bytes
) -> None:
    before = running.count("refused_requests_total", reason="header_bytes")
    with rawhttp.connected(running.port) as connection:
        connection.sendall(start)
        rawhttp.pour(connection, piece, 1_000_000)
        assert rawhttp.answer(connection)[0] in (431, 400, 0)  # what is under way when it closes may hide the answer
    until(lambda: running.count("refused_requests_total", reason="header_bytes") == before + 1, "the refusal")


def test_large_headers_and_bodies_within_the_limits_are_answered(running: Running) -> None:
    status, _, _ = running.send("GET", "/healthz", headers={"X-Large": 50_000 * "x"})
    assert status == 200
    status, document, _ = running.send("POST", "/v1/predict", {"queries": 200 * [900 * "["], "task": "retro"})
    assert status == 200 and len(document["results"]) == 200
    with rawhttp.connected(running.port) as connection:  # one connection, and more than a header's limit in all
        for _ in range(3):
            large = {"Host": "localhost", "X-Large": 40_000 * "x"}
            connection.sendall(rawhttp.head("/healthz", large))
            assert rawhttp.answer(connection)[0] == 200


def test_headers_that_take_their_time_are_ended(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    with rawhttp.connected(running.port) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        status, text = rawhttp.answer(connection)
        assert status == 408 and '"code": "header_seconds"' in text
        assert connection.recv(1) == b""
    with rawhttp.connected(running.port) as connection:  # such as browsers open in advance
        assert connection.recv(1) == b""
    with rawhttp.connected(running.port) as connection:  # the deadline is that of every request
        connection.sendall(rawhttp.head("/healthz", {"Host": "localhost"}))
        assert rawhttp.answer(connection)[0] == 200
        connection.sendall(b"\r\n")
        assert rawhttp.answer(connection)[0] == 408


def test_a_body_that_takes_its_time_is_ended(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_TIMEOUT", 0.1)
    with rawhttp.connected(running.port) as connection:
        connection.sendall(QUESTION[:-10])
        status, text = rawhttp.answer(connection)
        assert status == 408 and '"code":"slow"' in text
        assert connection.recv(1) == b""


BODY = QUESTION.partition(b"\r\n\r\n")[2]
SECOND = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"  # a body that looks like a request
JAVA = {
    "Connection": "Upgrade, HTTP2-Settings",
    "Upgrade": "h2c",
    "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
}
UPGRADES: dict[str, dict[str, str]] = {
    "none": {},
    "java": JAVA,
    "lower case": {name.lower(): value.lower() for name, value in JAVA.items() if name != "HTTP2-Settings"},
    "websocket": rawhttp.WEBSOCKET,
    "several": {"Connection": "keep-alive, Upgrade", "Upgrade": "h2c, websocket, TLS/1.0"},
    "only upgrade": {"Upgrade": "h2c"},
    "only connection": {"Connection": "Upgrade"},
}


@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.parametrize("pieces", ["one segment", "a segment for the body", "many segments", "chunks"])
def test_a_wish_for_another_protocol_costs_no_request_its_body(running: Running, upgrade: str, pieces: str) -> None:
    """One response, of this protocol, however the body arrives; nothing in a body is taken for a request."""
    common = {"Host": "localhost", "Content-Type": "application/json", **UPGRADES[upgrade]}
    for body, status in ((BODY, 200), (SECOND, 422)):
        framing = {"Transfer-Encoding": "chunked"} if pieces == "chunks" else {"Content-Length": str(len(body))}
        head = rawhttp.head("/v1/predict", {**common, **framing}, method="POST")
        sent = {
            "one segment": [head + body],
            "a segment for the body": [head, body],
            "many segments": [head[:50], head[50:], body[:10], body[10:]],
            "chunks": [head, b"%x\r\n" % len(body), body, b"\r\n0\r\n\r\n"],
        }[pieces]
        with rawhttp.connected(running.port) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in sent:
                connection.sendall(part)
                time.sleep(0.01)  # a segment apart
            assert rawhttp.answer(connection)[0] == status
            # The connection goes on with the next request and has no other answer in between.
            connection.sendall(rawhttp.head("/healthz", {"Host": "localhost"}))
            status_of_next, text = rawhttp.answer(connection)
            assert status_of_next == 200 and text.endswith('{"status":"ok"}') and text.count("HTTP/1.1 ") == 1


@pytest.mark.parametrize(("lines", "status"), table("service/malformed_requests"))
def test_what_servers_may_read_differently_is_refused_in_the_form_of_other_errors(
    running: Running, lines: list[str], status: int
) -> None:
    with rawhttp.connected(running.port) as connection:
        connection.sendall("\r\n".join(lines).encode("latin-1"))
        found, text = rawhttp.answer(connection)
        assert found == status, text
        if status != 200:
            document = json.loads(text.partition("\r\n\r\n")[2])
            assert document["code"] == "malformed" and document["detail"]
            assert connection.recv(1) == b"", "and nothing else is read from this connection"


@pytest.fixture
def small_room(engines: Mapping[str, Engine], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Running, Gated]]:
    """A service with room for eight connections, whose model waits for its gate."""
    monkeypatch.setattr(connections, "connection_limit", lambda: 8)
    gated = Gated(engines["retro"])
    with serving({"retro": gated}) as service:  # type: ignore[dict-item]
        yield service, gated


@pytest.mark.parametrize(
    ("files", "opened", "most"),
    [(40, 15, 9), (40, 30, 4), (256, 20, 172), (1024, 30, 738), (100_000, 30, 1000), (-1, 30, 1000)],
)
def test_connections_leave_files_for_other_uses(
    monkeypatch: pytest.MonkeyPatch, files: int, opened: int, most: int
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    monkeypatch.setattr(connections, "Path", lambda _: SimpleNamespace(iterdir=lambda: range(opened)))
    assert connections.connection_limit() == most


def test_open_documents_are_written_once(engines: Mapping[str, Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask for them, as often as they like."""
    written: list[Any] = []
    render = api.render_docs
    monkeypatch.setattr(api, "render_docs", lambda document: (written.append(document), render(document))[1])
    encode = api.msgspec.json.encode
    monkeypatch.setattr(api.msgspec.json, "encode", lambda document: (written.append(document), encode(document))[1])
    with serving({"retro": engines["retro"]}) as service:
        for path in ("/docs", "/openapi.json") * 3:
            assert rawhttp.get(service.port, path, {"Host": "localhost"})[0] == 200
    assert len(written) == 2


def test_slow_connections_keep_nobody_out(small_room: tuple[Running, Gated]) -> None:
    service, gated = small_room
    asked = rawhttp.connected(service.port)
    asked.sendall(QUESTION)
    until(lambda: gated.batches, "the batch")
    slow: list[socket.socket] = []
    for number in range(100):
        slow.append(rawhttp.connected(service.port))
        if number % 2:  # headers that never end
            slow[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        else:  # a body that never ends
            slow[-1].sendall(QUESTION[:-10])
        if number % 10 == 9:
            assert rawhttp.get(service.port, "/healthz", {"Host": "localhost"})[0] == 200
    until(lambda: service.count("refused_requests_total", reason="connections") >= 92, "the refusals")
    assert len(service.server.server_state.connections) <= 8
    gated.gate.set()
    assert rawhttp.answer(asked)[0] == 200  # who waits for an answer is not sent away
    for connection in (asked, *slow):
        connection.close()


def test_of_slow_connections_the_oldest_goes(small_room: tuple[Running, Gated]) -> None:
    service, _ = small_room
    slow = []
    for number in range(8):
        slow.append(rawhttp.connected(service.port))
        slow[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        until(lambda: len(service.server.server_state.connections) == number + 1, "it")  # noqa: B023
        time.sleep(0.002)  # each is younger on the loop's clock
    for number in range(7):
        slow.append(rawhttp.connected(service.port))
        until(lambda: service.count("refused_requests_total", reason="connections") == number + 1, "its end")  # noqa: B023
        ended = []
        for at, connection in enumerate(slow):
            connection.setblocking(False)
            try:
                ended += [at] if connection.recv(1) == b"" else []
            except BlockingIOError:
                pass
            except ConnectionResetError:
                ended.append(at)
        assert ended == list(range(number + 1))
    for connection in slow:
        connection.close()


def test_who_does_not_take_the_answers_keeps_nobody_out(small_room: tuple[Running, Gated]) -> None:
    service, _ = small_room
    held, ask = service.server.server_state.connections, b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as opened:
        for number in range(8):
            opened.enter_context(rawhttp.connected(service.port)).sendall(ask * 500)  # some 30 MB, which nobody reads
            until(lambda: sum(each.flow.write_paused for each in held) == number + 1, "it")  # noqa: B023
        assert rawhttp.get(service.port, "/healthz", {"Host": "localhost"})[0] == 200
        assert service.count("refused_requests_total", reason="connections") == 1


def test_where_everybody_waits_for_an_answer_a_further_one_is_told(small_room: tuple[Running, Gated]) -> None:
    service, gated = small_room
    asked = [rawhttp.connected(service.port) for _ in range(8)]
    for connection in asked:
        connection.sendall(QUESTION)
    until(lambda: service.count("queue_queries") + sum(map(len, gated.batches)) == 8 and gated.batches, "the questions")
    with rawhttp.connected(service.port) as connection:
        status, text = rawhttp.answer(connection)
        assert status == 503 and '"code": "connections"' in text
    gated.gate.set()
    assert [rawhttp.answer(connection)[0] for connection in asked] == [200] * 8
    for connection in asked:
        connection.close()


def test_what_is_refused_is_logged_without_who_asked(
    engines: Mapping[str, Engine], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "LOG_SECONDS", 0.01)
    monkeypatch.setattr(server.LOG, "propagate", True)
    with caplog.at_level(logging.WARNING, server.LOG.name), serving(engines) as service:
        for _ in range(3):
            rawhttp.get(service.port, "/healthz?q=CCO", {"Host": "evil.example"})
        told = until(lambda: [one.log_fields for one in caplog.records if sum_of(caplog.records) >= 3], "the log")
    assert all(set(one) == {"host"} for one in told)
    lines = [server._JsonFormatter().format(record) for record in caplog.records]
    assert not [line for line in lines if "127.0.0.1" in line or "CCO" in line or "evil" in line]


def sum_of(records: list[logging.LogRecord]) -> int:
    """How many refusals a log tells of."""
    return sum(record.log_fields["host"] for record in records if record.getMessage() == "refused")  # type: ignore[attr-defined]


def test_the_service_asks_no_other_machine(
    folders: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("watched")
    watch = Watch(folder / "hook")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", watch.environment["PYTHONPATH"])
        with Process(folder, [folders["retro"]], "--host", "0.0.0.0", "--allowed-host", "chem.example.org") as process:
            for host in (f"127.0.0.1:{process.port}", "chem.example.org", "10.1.2.3", socket.gethostname()):
                assert rawhttp.get(process.port, "/readyz", {"Host": host})[0] == 200
            for headers in ({"Host": "evil.example"}, {"Host": "localhost", "Origin": "http://evil.example"}):
                assert rawhttp.get(process.port, "/readyz", headers)[0] == 403
            with rawhttp.connected(process.port) as connection:
                connection.sendall(QUESTION)
                assert rawhttp.answer(connection)[0] == 200
            assert rawhttp.listening(process.port)
            assert process.stop() == 0
    assert watch.outside() == []


def test_of_slow_connections_the_oldest_gives_way(small_room: tuple[Running, Gated]) -> None:
    service, gated = small_room
    asked = [rawhttp.connected(service.port) for _ in range(6)]
    for connection in asked:
        connection.sendall(QUESTION)
    until(lambda: service.count("queue_queries") + sum(map(len, gated.batches)) == 6 and gated.batches, "the questions")
    held = service.server.server_state.connections
    until(lambda: len(held) == 6, "the end of other connections")
    slow: list[socket.socket] = []
    for number in (7, 8):
        slow.append(rawhttp.connected(service.port))
        slow[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        until(lambda number=number: len(held) == number, "the connection")  # type: ignore[misc]
    older, newer = slow
    with rawhttp.connected(service.port):
        with suppress(ConnectionResetError):
            assert older.recv(1) == b""
        newer.sendall(b"\r\n")
        assert rawhttp.answer(newer)[0] == 200
    gated.gate.set()
    for connection in (*asked, *slow):
        connection.close()


@pytest.mark.parametrize("size", [1, 999, 100_000])
def test_a_body_without_an_end_is_read_up_to_a_multiple_of_its_limit(size: int) -> None:
    """So that the client gets the error, and no more."""
    service, sent, received = MagicMock(), [], []
    service.limits.api_keys, service.limits.body = (), 100_000
    service.refusal.return_value = None

    async def receive() -> dict[str, Any]:
        received.append(size)
        assert sum(received) <= (guard.DRAIN_FACTOR + 1) * service.limits.body + size, "it would never end"
        return {"type": "http.request", "body": b"x" * size, "more_body": size > 1 or len(received) < 1000}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": [], "state": {}}
    asyncio.run(guard.Guard(AsyncMock(), service)._check_and_forward(scope, receive, send))
    if size == 1:
        assert not sent, "within the limit it is passed on"
        return
    assert sent[0]["status"] == 413
    assert sum(received) > guard.DRAIN_FACTOR * service.limits.body
