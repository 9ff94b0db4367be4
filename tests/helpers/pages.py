"""Pages of the app without a browser."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.paths import ROOT

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.engine.engine import installed_models
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine

PAGES = ROOT / "pages"
MODELS = {folder.name for folder in installed_models()}
weights = pytest.mark.skipif(not {"forward", "retro"} <= MODELS, reason="no models in assets/models")


def open_page(name: str, query: dict[str, str] | None = None, state: dict[str, Any] | None = None) -> AppTest:
    """A page as a visitor finds it who comes with query parameters, or with values in the session."""
    app = AppTest.from_file(str(PAGES / f"{name}.py"), default_timeout=240)
    for key, value in (query or {}).items():
        app.query_params[key] = value
    for key, value in (state or {}).items():
        app.session_state[key] = value
    app.run()
    assert not app.exception
    return app


def html(app: AppTest) -> str:
    """All pieces of HTML on a page."""
    return "\n".join(item.proto.body for item in app.get("html"))


def words(app: AppTest) -> str:
    """All that a page says in Markdown, without escapes."""
    kinds = (app.success, app.warning, app.error, app.info, app.subheader, app.caption, app.markdown)
    return "\n".join(str(item.value) for kind in kinds for item in kind).replace("\\", "")


def watch_queries(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, DecodeSettings]]:
    """What pages decode from now on: model, query and settings of each."""
    asked: list[tuple[str, str, DecodeSettings]] = []
    decode = queued_engine.decode_query

    def counting(model: Any, query: str, settings: DecodeSettings, **more: Any) -> DecodeResult:
        asked.append((model.name, query, settings))
        return decode(model, query, settings, **more)

    monkeypatch.setattr(queued_engine, "decode_query", counting)
    return asked
