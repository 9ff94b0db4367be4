"""Answers while a visitor types: what is shown, to whom, and what is dropped."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import pages
from helpers.serving import until

pytest.importorskip("streamlit")

from helpers.pages import MODELS, weights
from starlette.requests import Request
from starlette.responses import Response

from chemspec.engine.engine import Engine, model_folder
from chemspec.ui.common import login, preview, query_box, queued_engine
from chemspec.ui.launch.previews import MAX_BYTES, Previews


def request(values: Any, *, body: bytes | None = None) -> Request:
    content = json.dumps(values).encode() if body is None else body

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def ask(previews: Previews, *requests: Request) -> list[Response]:
    async def all_of_them() -> list[Response]:
        return list(await asyncio.gather(*map(previews.answer, requests)))

    return asyncio.run(all_of_them())


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of which previews are made; these are <b>text</b>, empty for "unfinished"."""
    made: list[str] = []

    def make(text: str, task: str, model: str, *, dark: bool) -> str:
        made.append(text)
        return "" if text == "unfinished" else f"<b>{text} {task} {model} {dark}</b>"

    monkeypatch.setattr(login, "is_visitor", lambda session: session.startswith("known"))
    monkeypatch.setattr(preview, "preview_html", make)
    return made


def test_only_pages_that_are_open_get_previews(texts: list[str]) -> None:
    (answer,) = ask(Previews(), request({"session": "known", "text": "CCO", "task": "retro", "dark": True}))
    assert json.loads(bytes(answer.body)) == {"html": "<b>CCO retro  True</b>"}
    unfinished, stranger, nobody = ask(
        Previews(),
        request({"session": "known", "text": "unfinished"}),
        request({"session": "forged", "text": "CCO"}),
        request({"text": "CCO"}),
    )
    assert [unfinished.status_code, stranger.status_code, nobody.status_code] == [204, 403, 403]
    assert texts == ["CCO", "unfinished"]


def test_where_a_login_is_required_only_the_admitted_are_visitors(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(is_active_session=lambda session: session in ("here", "logged in"))
    monkeypatch.setattr(login, "runtime", SimpleNamespace(exists=lambda: True, get_instance=lambda: runtime))
    monkeypatch.setattr(login, "_admitted", {"logged in", "gone"})
    monkeypatch.setenv("CHEMSPEC_LOGIN", "0")
    assert [login.is_visitor(session) for session in ("here", "logged in", "gone", "")] == [True, True, False, False]
    monkeypatch.setenv("CHEMSPEC_LOGIN", "1")
    assert [login.is_visitor(session) for session in ("here", "logged in", "gone", "")] == [False, True, False, False]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 5000, b"\xff", b'{"text": "' + b"C" * MAX_BYTES + b'"}'])
def test_what_is_no_request_is_refused(texts: list[str], body: bytes) -> None:
    (answer,) = ask(Previews(), request(None, body=body))
    assert answer.status_code == 400 and not texts


def test_of_a_visitors_requests_the_newest_counts(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first is at work the next ones come; of one visitor only the last of these is made."""
    go, at_work = threading.Event(), preview.preview_html

    def slowly(text: str, *args: Any, **options: Any) -> str:
        assert go.wait(60)
        return at_work(text, *args, **options)

    monkeypatch.setattr(preview, "preview_html", slowly)
    previews = Previews()
    wishes = [("known 1", "C"), ("known 1", "CC"), ("known 2", "N"), ("known 1", "CCO")]
    requests = [request({"session": session, "text": text}) for session, text in wishes]
    started = threading.Thread(target=lambda: (until(lambda: len(previews.newest) == 2, "all"), go.set()))
    started.start()
    codes = [answer.status_code for answer in ask(previews, *requests)]
    started.join()
    assert codes[1] == 204 and codes[2:] == [200, 200]
    assert texts[-2:] == ["N", "CCO"] and "CC" not in texts


@weights
@pytest.mark.parametrize(
    ("task", "text", "smiles"),
    [("forward", "aniline, acetyl chloride", "CC(=O)Cl.Nc1ccccc1"), ("retro", "acetanilide", "CC(=O)Nc1ccccc1")],
)
def test_a_preview_is_the_models_answer(monkeypatch: pytest.MonkeyPatch, task: str, text: str, smiles: str) -> None:
    folder = model_folder(task)
    engine = Engine.load(folder, threads=1, dtype="int8")
    monkeypatch.setattr(queued_engine, "loaded_engines", lambda: {folder: engine})
    monkeypatch.setattr(preview, "_cache", {})
    html = preview.preview_html(text, task)
    best = engine.predict(smiles, decoder="greedy", n=1).hypotheses[0].canonical
    assert all(f'alt="drawing of {part}"' in html for part in best.split(".")) and "data:image/svg+xml" in html
    decoded: list[str] = []
    monkeypatch.setattr(Engine, "predict", lambda _, query, *__: decoded.append(query))
    assert preview.preview_html(text, task) == html and not decoded, "who types it again is shown what was there"


@weights
@pytest.mark.parametrize("text", ["", "  ", "CC(=O", "anil", "c1cc", "CCO>>CC=O", "C" * 1001, "%%", "\0"])
def test_what_is_unfinished_or_no_query_has_no_preview_and_no_error(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(queued_engine, "loaded_engines", lambda: pytest.fail("no model is needed"))
    for task in ("forward", "retro", "reagents", "nonsense"):
        assert preview.preview_html(text, task) == ""


@weights
def test_a_preview_gives_way_to_predictions_and_waits_for_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(preview, "_cache", {})
    monkeypatch.setattr(queued_engine, "loaded_engines", dict)
    assert preview.preview_html("CCO", "retro") == "", "not loaded yet"
    assert "retro" in MODELS
    folder = model_folder("retro")
    engine = Engine.load(folder, threads=1, dtype="int8")
    monkeypatch.setattr(queued_engine, "loaded_engines", lambda: {folder: engine})
    with queued_engine.shared_queue().wait_for_turn():
        assert preview.preview_html("CC(=O)Nc1ccccc1", "retro") == ""
    assert preview.preview_html("CC(=O)Nc1ccccc1", "retro")


@weights
@pytest.mark.ui
def test_where_streamlit_alone_serves_the_page_the_empty_box_says_that_previews_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for offered in (False, True):
        monkeypatch.setattr(login, "previews_offered", SimpleNamespace(is_set=lambda: offered))  # noqa: B023
        assert pages.html(pages.open_page("predict")).count(query_box.NO_PREVIEWS) == (not offered)
