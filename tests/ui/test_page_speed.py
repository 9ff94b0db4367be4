"""The depth Speed of How it works, without a browser: it races, measures, stops and says what is wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import pages
from helpers.pages import MODELS, weights, words
from streamlit.testing.v1 import AppTest

from chemspec.jobs import job_queue
from chemspec.settings import DecodeSettings
from chemspec.system import host
from chemspec.system.fair_queue import FairQueue
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine
from chemspec.ui.speed import race_page

pytestmark = pytest.mark.ui
GREEDY = DecodeSettings(decoder="greedy", n=1, drafter="none")
AUTO = replace(GREEDY, drafter="auto")


def opened(**state: Any) -> AppTest:
    if "forward" not in MODELS:
        pytest.skip("no forward model in assets/models")
    return pages.open_page("learn", {"depth": "speed"}, state)


def press(app: AppTest, key: str) -> None:
    app.button(key=key).click().run()
    assert not app.exception


def test_the_page_races_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "load_average", lambda: 0.0)
    app = opened()
    race = app.session_state["speed_race"]  # it races by itself
    assert race.model == "forward" and race.lanes == (GREEDY, AUTO) and list(map(len, race.rounds)) == [5, 5]
    assert re.search(r"Identical: yes.*; \d+ passes instead of \d+; .*\(medians of 5 warm runs", words(app))
    table = app.dataframe[0].value
    assert list(table["name"]) == ["Greedy, without drafts", "Greedy, with drafts (auto)"]
    assert table["passes"][1] < table["passes"][0] and table["tokens_per_pass"][0] == 1
    assert [item.proto.label for item in app.get("download_button")] == ["SVG", "WEBP", "GIF"]
    assert "Wall clock on the server" in words(app)
    press(app, "speed_race_start")
    assert app.session_state["speed_race"] is not race and not app.session_state["speed_race"].problem


def test_on_a_busy_machine_passes_are_told_and_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "load_average", lambda: 1000.0)
    app = opened()
    assert re.search(r"; \d+ passes instead of \d+$", words(app), re.MULTILINE)
    assert "The server was busy" in words(app) and "times faster" not in words(app)
    table, *_ = app.dataframe
    assert not any(name.endswith("_ms") for name in table.proto.column_order)


@weights
def test_the_link_chooses_model_and_query_and_another_query_is_told() -> None:
    app = pages.open_page("learn", {"depth": "speed", "task": "retro", "smi": "c1ccncc1"})
    race = app.session_state["speed_race"]
    assert (race.model, race.query) == ("retro", "c1ccncc1")
    press(app, "learn_example_Lidocaine: amide and amine")
    assert "of an earlier query" in app.info[0].value
    press(app, "speed_race_start")
    assert app.session_state["speed_race"].query == "CCN(CC)CC(=O)Nc1c(C)cccc1C"


# --- races


class FakeModel:
    """As much of an engine as a race needs."""

    name, task = "fake", "forward"
    device, dtype, runtime, threads = "cpu", "fp32", "none", 1

    def stream(self, query: str, settings: DecodeSettings) -> Any:
        yield DecodeResult(query, "ok", "")


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> FairQueue:
    """A queue of the test's own."""
    turns = FairQueue()
    monkeypatch.setattr(queued_engine, "shared_queue", lambda: turns)
    return turns


def run(progress: Any = lambda *_: None) -> race_page.Race:
    model: Any = FakeModel()
    return race_page.run_race(model, "C", (GREEDY, AUTO), progress)


def test_a_race_reports_every_run(line: FairQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "load_average", lambda: 0.0)
    said = []
    race = run(lambda share, text: said.append((share, text)))
    assert list(map(len, race.rounds)) == [5, 5] and race.quiet and not race.problem
    assert list(dict.fromkeys(text for _, text in said)) == [
        "Warming up: one run of each, not counted",
        *(f"Run {k} of 10" for k in range(1, 11)),
    ]
    assert said[-1][0] == 0.9


def test_a_stop_frees_the_queue(line: FairQueue) -> None:
    def stop(_: float, text: str) -> None:
        if text == "Run 4 of 10":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(stop)
    assert len(line) == 0


def test_other_visitors_and_a_batch_job_make_it_busy(line: FairQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "load_average", lambda: 0.0)
    assert not race_page.is_shared()
    with line.wait_for_turn():
        assert race_page.is_shared()
    monkeypatch.setattr(job_queue, "running_job", lambda: {"job": "x"})
    assert not run().quiet


@pytest.mark.parametrize("fault", [ValueError("8 heads"), DecodeResult("C", "failed", "8 heads")])
def test_what_cannot_be_raced_is_told(line: FairQueue, monkeypatch: pytest.MonkeyPatch, fault: Any) -> None:
    def stream(*_: Any) -> Any:
        if isinstance(fault, Exception):
            raise fault
        yield fault

    monkeypatch.setattr(FakeModel, "stream", stream)
    assert run().problem == "8 heads"


def test_a_question_of_another_page_is_raced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {}
    with monkeypatch.context() as patch:
        patch.setattr(race_page, "st", SimpleNamespace(session_state=state))
        race_page.race_against_standard(DecodeSettings(decoder="beam", n=20, drafter="auto"))
    race = opened(**state).session_state["speed_race"]
    assert [(lane.decoder, lane.n, lane.drafter) for lane in race.lanes] == [("beam", 20, "none"), ("beam", 20, "auto")]
