"""Tests of the app's server: the styles stand in the page, and nothing else of an answer changes."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from typing import Any

import pytest
import streamlit as st
import uvicorn
from starlette.requests import Request

from chemspec.asset_files import app_script, assets_folder
from chemspec.jobs import uploads
from chemspec.system.host_check import AllowedHosts, HostCheck
from chemspec.ui.common import nav, queued_engine
from chemspec.ui.launch import server


def test_the_app_is_served_with_its_styles_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class App:
        def __init__(self, script: Any, *, middleware: list[Any], routes: list[Any]) -> None:
            made.extend((script, {part.cls: part.kwargs for part in middleware}, routes))

        def run(self, *, config: dict[str, Any]) -> None:
            made.append(config)

    monkeypatch.setattr(st, "App", App)
    monkeypatch.setattr(queued_engine, "warm_up_models", lambda: None)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(uvicorn.config, "HTTP_PROTOCOLS", dict(uvicorn.config.HTTP_PROTOCOLS))
    allowed = AllowedHosts.of("::1", ["chem.example.org"])
    server.run_server(allowed, host="::1", port=1, headless=True, watch=False)
    script, around, routes, config = made
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
    assert {route.path for route in routes} == {"/", *(f"/{name}" for name, _ in nav.PAGES)}
    (first,) = (route for route in routes if route.path == f"/{server.FIRST_PAGE}" == f"/{nav.PAGES[0][0]}")
    asked = Request({"type": "http", "path": first.path, "query_string": b"task=retro&smi=CC%23N", "headers": []})
    assert asyncio.run(first.endpoint(asked)).headers["location"] == "./?task=retro&smi=CC%23N"
    response, other = (asyncio.run(routes[0].endpoint(None)) for _ in range(2))
    assert response is not other, "middleware changes the headers of a response"
    page = response.body.decode()
    for name in server.EARLY:
        assert (assets_folder() / "web" / name).read_text() in page.partition("<body><style>")[2]


def test_the_settings_keep_errors_and_names_on_this_machine() -> None:
    settings = tomllib.loads((app_script().parent / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert settings["client"]["showErrorLinks"] is False  # buttons that send an error to a search engine
    assert settings["server"]["fileWatcherType"] == "none"  # it looks at every source file again and again
    assert settings["server"]["allowedHosts"] == ["127.0.0.1", "localhost"]
    assert settings["server"]["maxUploadSize"] == uploads.MAX_STOCK_MB
    assert settings["browser"]["gatherUsageStats"] is False
