"""The client: its results and its patience."""

from __future__ import annotations

import asyncio
import io
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import ROOT
from helpers.serving import Running, serving, until
from helpers.small import QUERIES
from urllib3 import HTTPResponse

from chemspec import client as module
from chemspec.client import AsyncClient, Client, Result, Reviewed, ServiceError
from chemspec.engine.engine import Engine
from chemspec.service.server import read_keys

pytest.importorskip("fastapi")


def test_one_query_gives_one_result_and_many_give_many(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    client = running.client()
    one = client.predict("CCO", task="retro", n=2, max_len=12)
    assert isinstance(one, Result)
    monkeypatch.setattr(module, "PART", 3)  # in several requests
    many = running.client().predict(QUERIES, task="retro", n=2, max_len=12)
    assert [result.query for result in many] == QUERIES
    assert many[0].answers == one.answers
    assert client.predict([], task="retro") == []


def test_an_async_client_gives_the_same_while_the_loop_is_free(running: Running) -> None:
    client = running.client()

    async def ask() -> tuple[Any, ...]:
        async with AsyncClient(client.url, retry_seconds=5.0) as asked:
            calls = [asked.predict(query, task="retro", n=2, max_len=12) for query in QUERIES]
            found = await asyncio.gather(*calls, asked.models(), asked.predict(QUERIES, task="retro", n=2, max_len=12))
            with pytest.raises(ServiceError, match="no model"):
                await asked.predict("CCO", model="none")
        with pytest.raises(RuntimeError):
            await asked.models()  # closed
        return tuple(found)

    *single, models, many = asyncio.run(ask())
    expected = client.predict(QUERIES, task="retro", n=2, max_len=12)
    assert [one.answers for one in single] == [one.answers for one in many] == [one.answers for one in expected]
    assert models == client.models()


def test_library_and_service_list_the_same_by_default(running: Running, engines: dict[str, Engine]) -> None:
    for options in ({"n": 3}, {"n": 1}, {"n": 3, "distinct": False}, {"n": 3, "rules": "onmt"}):
        own = engines["retro"].predict(QUERIES[:4], **options, max_len=12)  # type: ignore[call-overload]
        served = running.client().predict(QUERIES[:4], task="retro", **options, max_len=12)
        for mine, other in zip(own, served, strict=True):
            assert [answer.smiles for answer in other.answers] == [answer.smiles for answer in mine.hypotheses]


def test_reviews_come_with_the_verdict_of_the_forward_model(running: Running) -> None:
    client = running.client()
    query = QUERIES[1]
    one = client.review(query, task="retro", n=5, max_len=12, distinct=True)
    assert (one.result.query, one.smiles) == (query, query)
    documented = re.findall(r"^\| `(\w+)` \|", (ROOT / "assets/docs/service.md").read_text("utf-8"), re.MULTILINE)
    assert list(one.suggestions[0]) == documented
    valid = [answer.canonical for answer in one.result.answers if answer.valid]
    checked = [item for suggestion in one.suggestions for item in (suggestion, *suggestion["alternatives"])]
    assert {item["smiles"] for item in checked if item["forward"]} == set(valid) != set()
    assert all(item["forward"]["verdict"] in ("agrees", "unsure", "differs") for item in checked if item["forward"])
    many = client.review([query, "CC("], task="retro", n=5, max_len=12, distinct=True)
    assert many[0].suggestions == one.suggestions
    assert many[1].result.status == "invalid" and many[1].suggestions == []
    assert client.review("CCO", task="forward", n=2, max_len=12, distinct=False).suggestions[0]["forward"] is None


def test_fields_of_a_later_service_are_ignored() -> None:
    result = {"query": "CCO", "status": "ok", "message": "", "later": 1}
    review = {"smiles": "CCO", "warning": "", "suggestions": [], "later": 1}
    assert Reviewed.from_document(result | {"review": review}).result.query == "CCO"


def test_a_service_that_takes_few_queries_at_once_is_asked_more_often(engines: dict[str, Engine]) -> None:
    with serving(dict(engines), queries=2) as service:
        client = service.client()
        found = client.predict(QUERIES, task="retro", n=2, max_len=12)
        assert [result.query for result in found] == QUERIES and len(QUERIES) > 2
        with pytest.raises(ServiceError, match="no model"):
            client.predict(QUERIES, model="none", n=2)


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://localhost", "http://"])
def test_an_address_that_is_none_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHEMSPEC_SERVER", raising=False)
    with pytest.raises(ValueError, match="no address of a service"):
        Client(url)


def test_the_address_and_the_key_may_come_from_the_environment(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHEMSPEC_SERVER", running.url + "/")
    assert Client().models()
    monkeypatch.setenv("CHEMSPEC_API_KEY", "open sesame")
    with serving(dict(running.service.engines), api_keys=frozenset({"open sesame"})) as locked:
        assert Client(locked.url, retry_seconds=0).models()
        with pytest.raises(ServiceError):
            Client(locked.url, key="another", retry_seconds=0).models()


def test_keys_are_those_of_the_file_and_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_API_KEYS", " a,,b ")
    (tmp_path / "keys").write_text("c\n\n d \n")
    assert read_keys(tmp_path / "keys") == {"a", "b", "c", "d"}
    assert read_keys(None) == {"a", "b"}
    lines = (
        "\ufeff# keys of the lab",
        "  # none",
        "key  # of Jane",
        "open sesame",
        "a#b",
        "#",
        "tab\t#x",
        "; x",
        "// y",
    )
    (tmp_path / "keys").write_text("\r\n".join(lines), encoding="utf-8")
    assert read_keys(tmp_path / "keys") - {"a", "b"} == {"key", "open sesame", "a#b", "tab"}
    (tmp_path / "keys").write_text("# only\n# comments\n")
    with pytest.raises(ValueError, match="has no key"):
        read_keys(tmp_path / "keys")
    (tmp_path / "keys").write_text(" \n\n")
    with pytest.raises(ValueError, match="has no key"):
        read_keys(tmp_path / "keys")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((200, body) for body in (b"<html>log in</html>", b"", b"\xff", b"[1]", b"{}", b'{"results": [5]}')),
        (200, b'{"results": [], "models": 5}'),
        (204, b""),
        (302, b""),
    ],
)
def test_a_server_that_is_no_service_is_named(status: int, body: bytes) -> None:
    client = Client("http://127.0.0.1:1")

    def request(*_: object, preload_content: bool = True, **__: object) -> HTTPResponse:
        moved = {"Location": "https://127.0.0.1:1/"} if status == 302 else None
        return HTTPResponse(io.BytesIO(body), moved, status, preload_content=preload_content)

    client._pool.request = request  # type: ignore[assignment]
    message = "HTTP status 302, moved to https" if status == 302 else "127.0.0.1:1 is no chemspec service"
    for call in (lambda: client.predict("CCO"), client.models):
        with pytest.raises(ServiceError, match=message):
            call()


def test_a_key_may_end_with_the_newline_of_its_file() -> None:
    assert Client("http://127.0.0.1:1", key="open sesame\n")._pool.headers["X-API-Key"] == "open sesame"


def test_a_service_that_is_not_there_is_told_after_the_retry_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = Client(f"http://127.0.0.1:{port}", retry_seconds=0.1)
    with pytest.raises(ServiceError, match="cannot be reached"):
        client.models()


def test_a_service_that_says_nothing_is_left_after_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.05)
        with pytest.raises(ServiceError, match="timed out"):
            client.models()


def test_a_connection_that_the_service_has_closed_is_opened_again(engines: dict[str, Engine]) -> None:
    with serving(engines) as service:
        service.server.config.timeout_keep_alive = 0.01
        client = service.client()
        first = client.predict("CCO", task="retro", n=1, max_len=5)
        until(lambda: not service.server.server_state.connections, "the closed connection")
        assert client.predict("CCO", task="retro", n=1, max_len=5).answers == first.answers
