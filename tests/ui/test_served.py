"""With CHEMSPEC_SERVER the pages ask a service, get its answers whole, and say what they compute themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("streamlit")
pytest.importorskip("fastapi")

import streamlit as st
from serving import Running, serving
from small import QUERIES, tiny_folder

import pages
from chemspec.client import Client
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Pass
from chemspec.ui.common import queued_engine, remote_engine

HOW = DecodeSettings(n=2, max_len=20, drafter="copy")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine.load(tiny_folder(tmp_path_factory.mktemp("far") / "far", task="retro", seed=4), threads=1)


@pytest.fixture(scope="module")
def running(engine: Engine) -> Iterator[Running]:
    with serving([{"far": engine}], queries=50) as service:
        yield service


@pytest.fixture
def server(running: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The app's server asks the service, and has a model of its own that the service has not."""
    st.cache_resource.clear()
    monkeypatch.setenv("CHEMSPEC_SERVER", running.url)
    yield running.url
    st.cache_resource.clear()


def bare(result: DecodeResult) -> tuple[object, ...]:
    return result.query, result.status, result.message, result.hypotheses, len(result.trace.passes)


def test_its_answers_are_those_of_the_engine_there(server: str, engine: Engine) -> None:
    (far,) = remote_engine.remote_engines().values()
    assert (far.name, far.task, far.digest, far.dtype) == ("far", "retro", engine.digest, engine.dtype)
    queries = [*QUERIES, "CC("]
    own = [engine.predict(query, HOW) for query in queries]
    found = [far.predict(query, HOW) for query in queries]
    assert list(map(bare, found)) == list(map(bare, own))
    assert [one.query for one in far.predict(queries * 20, HOW)] == queries * 20  # more than a request holds
    recorded = far.predict(QUERIES[1], replace(HOW, record=True))
    assert recorded.trace.vocabulary and recorded.trace.passes[0].grown


def test_passes_come_one_by_one_and_the_whole_result_last(server: str, engine: Engine) -> None:
    (far,) = remote_engine.remote_engines().values()
    *passes, result = far.stream(QUERIES[1], HOW)
    assert isinstance(result, DecodeResult)
    assert bare(result) == bare(engine.predict(QUERIES[1], HOW))
    counts = [(one.emitted, one.accepted) for one in passes if isinstance(one, Pass)]
    assert counts == [(one.emitted, one.accepted) for one in result.trace.passes]


@pytest.mark.parametrize("how", [replace(HOW, n=1000), HOW])
def test_what_the_service_refuses_or_loses_is_a_failed_query(
    server: str, how: DecodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (far,) = remote_engine.remote_engines().values()
    if how is HOW:
        far = replace(far, client=Client("http://127.0.0.1:9", patience=0.0))
    for found in (far.predict("CCO", how), *far.stream("CCO", how)):
        assert isinstance(found, DecodeResult)
        assert found.status == "failed"
        assert "the service cannot answer" in found.message


def test_the_pages_offer_its_models_and_those_here_only_where_they_compute(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_folder(tmp_path / "near", task="forward")
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path))
    assert queued_engine.model_names() == queued_engine.model_names("retro") == ["far"]
    assert queued_engine.model_names("forward") == []
    assert queued_engine.model_names(here=True) == ["near"]
    assert queued_engine.task_of_model("far") == "retro"
    assert "copy" in queued_engine.usable_drafters("far")[0]
    assert queued_engine.offered_precisions("far") == ("fp32",)


def test_predict_asks_the_service_and_says_so(server: str, running: Running) -> None:
    page = pages.open_page("predict", {"task": "retro"})
    assert any(f"Queries are sent to the service at {server}" in one.value.replace("\\", "") for one in page.markdown)
    before = running.count("queries_total", model="far", status="ok")
    page = pages.open_page("predict", {"task": "far", "smi": "CC(=O)Nc1ccccc1"})
    assert not page.error
    # The first answer greedily, with drafts, and the list.
    assert running.count("queries_total", model="far", status="ok") == before + 2


def test_a_page_that_needs_the_model_says_that_it_computes_here(server: str) -> None:
    page = pages.open_page("models")
    assert any(f"use the service at {server}" in one.value for one in page.caption)


def test_a_service_that_cannot_be_reached_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    st.cache_resource.clear()
    monkeypatch.setattr(remote_engine, "PATIENCE", 0.0)
    monkeypatch.setenv("CHEMSPEC_SERVER", "http://127.0.0.1:9")
    page = pages.open_page("predict")
    assert ["cannot be reached" in one.value for one in page.error] == [True]
