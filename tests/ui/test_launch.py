"""Tests of the app's server: the styles stand in the page, and nothing else of an answer changes."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import MutableMapping
from typing import Any

import pytest
import streamlit as st
import uvicorn

from chemspec.asset_files import app_script, assets_folder
from chemspec.jobs import uploads
from chemspec.system.host_check import AllowedHosts, HostCheck
from chemspec.ui.common import queued_engine
from chemspec.ui.launch import server
from chemspec.ui.launch.middleware import StyledPage

PAGE = b"<html><head></head><body>x</body></html>"


def answer(body: list[bytes], kind: bytes, accept: bytes) -> tuple[list[Any], list[Any]]:
    """What a browser is sent, and the headers that the application saw."""
    sent: list[Any] = []
    seen: list[Any] = []

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])
        headers = [(b"content-type", kind), (b"content-length", b"%d" % sum(map(len, body))), (b"etag", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, part in enumerate(body, 1):
            await send({"type": "http.response.body", "body": part, "more_body": number < len(body)})

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"accept", accept), (b"accept-encoding", b"gzip"), (b"if-none-match", b"1")]
    scope = {"type": "http", "headers": headers}
    with pytest.raises(StopIteration):  # nothing waits, so no event loop is needed
        StyledPage(app, "<style>é</style>")(scope, receive, send).send(None)
    return sent, seen


def test_a_page_gets_the_styles_whole_and_with_its_new_length() -> None:
    sent, seen = answer([PAGE[:20], PAGE[20:]], b"text/html; charset=utf-8", b"text/html,*/*")
    (start, body) = sent
    assert body["body"] == PAGE.replace(b"<body>", "<body><style>é</style>".encode())
    assert dict(start["headers"])[b"content-length"] == b"%d" % len(body["body"])
    assert b"etag" not in dict(start["headers"])  # it was that of the page without them
    assert [name for name, _ in seen] == [b"accept"]  # neither packed nor "not modified"


def test_what_is_no_page_passes_unchanged() -> None:
    sent, seen = answer([b"<body>"], b"text/javascript", b"*/*")
    assert sent[1]["body"] == b"<body>" and dict(sent[0]["headers"])[b"etag"] == b"1" and len(seen) == 3
    sent, _ = answer([b"<body>"], b"image/png", b"text/html,*/*")
    assert sent[1]["body"] == b"<body>"


def test_the_app_is_served_with_its_styles_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class App:
        def __init__(self, script: Any, *, middleware: list[Any]) -> None:
            made.extend((script, {part.cls: part.kwargs for part in middleware}))

        def run(self, *, config: dict[str, Any]) -> None:
            made.append(config)

    monkeypatch.setattr(st, "App", App)
    monkeypatch.setattr(queued_engine, "warm_up_models", lambda: None)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(uvicorn.config, "HTTP_PROTOCOLS", dict(uvicorn.config.HTTP_PROTOCOLS))
    allowed = AllowedHosts.of("::1", ["chem.example.org"])
    server.run_server(allowed, host="::1", port=1, headless=True, watch=False)
    script, around, config = made
    styles = around[StyledPage]["styles"]
    assert around[HostCheck]["allowed"] == allowed
    assert script == app_script() and config == {
        "server.port": 1,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": False,
        "server.address": "::1",
        "browser.serverAddress": "::1",
        "server.allowedHosts": ["*"],
    }
    for name in server.EARLY:
        assert (assets_folder() / "web" / name).read_text() in styles


def test_the_settings_keep_errors_and_names_on_this_machine() -> None:
    settings = tomllib.loads((app_script().parent / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert settings["client"]["showErrorLinks"] is False  # buttons that send an error to a search engine
    assert settings["server"]["fileWatcherType"] == "none"  # it looks at every source file again and again
    assert settings["server"]["allowedHosts"] == ["127.0.0.1", "localhost"]
    assert settings["server"]["maxUploadSize"] == uploads.MAX_STOCK_MB
    assert settings["browser"]["gatherUsageStats"] is False
