"""Requests with a deadline: the widest list so far in time, whatever the device is doing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.serving import Gated, Running, Wrapped, serving, start, until

from chemspec.engine.engine import Engine

pytest.importorskip("fastapi")

ASKED: dict[str, Any] = {"queries": "CC(=O)Nc1ccccc1", "task": "retro", "n": 3, "max_len": 20, "distinct": False}


class Stalled(Wrapped):
    """An engine whose beams wait in every pass while the gate is shut."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.gate = threading.Event()
        self.passes_of_beams = 0
        self.closed = 0

    def stream(self, query: Any, settings: Any) -> Iterator[Any]:
        try:
            for event in self._engine.stream(query, settings):
                if settings.decoder == "beam":
                    self.passes_of_beams += 1
                    self.gate.wait(60.0)
                yield event
        finally:
            self.closed += settings.decoder == "beam"


def test_with_enough_time_the_whole_beam_comes_and_is_marked(running: Running, engines: dict[str, Engine]) -> None:
    status, document, _ = running.send("POST", "/v1/predict", {**ASKED, "within": 50.0})
    assert status == 200, document
    (result,) = document["results"]
    assert result["within"].items() >= {"seconds": 50.0, "width": 3, "abandoned": 0}.items()
    alone = engines["retro"].predict(ASKED["queries"], n=3, max_len=20, distinct=False)
    assert [answer["log_prob"] for answer in result["hypotheses"]] == [item.log_prob for item in alone.hypotheses]
    (typed,) = running.client().predict(["CCO"], task="retro", n=2, max_len=12, within=50.0, distinct=False)
    assert typed.within
    assert typed.within["width"] == 2
    assert "within" not in running.send("POST", "/v1/predict", ASKED)[1]["results"][0]


def test_the_client_gives_each_query_a_deadline_of_its_own(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    client, sent = running.client(), list[list[str]]()
    send = client.request
    monkeypatch.setattr(client, "request", lambda *call: sent.append(call[2]["queries"]) or send(*call))
    found = client.predict(["CCO", "CCN"], task="retro", n=2, max_len=12, within=50.0)
    assert sent == [["CCO"], ["CCN"]] and [result.query for result in found] == ["CCO", "CCN"]
    client.predict(["CCO", "CCN"], task="retro", n=2, max_len=12, within=None)
    assert sent[2:] == [["CCO", "CCN"]]


def test_a_beam_under_way_at_the_deadline_is_abandoned_and_the_greedy_answer_comes(engines: dict[str, Engine]) -> None:
    stalled = Stalled(engines["retro"])
    with serving({"retro": stalled}) as service:
        status, document, _ = service.send("POST", "/v1/predict", {**ASKED, "within": 1.5})
        assert status == 200, document
        (result,) = document["results"]
        assert (result["status"], result["within"]["width"]) == ("ok", 1)
        greedy = engines["retro"].predict(ASKED["queries"], decoder="greedy", n=1, max_len=20)
        assert [one["log_prob"] for one in result["hypotheses"]] == [one.log_prob for one in greedy.hypotheses]
        before = stalled.passes_of_beams
        stalled.gate.set()
        until(lambda: stalled.closed, "the end of the beam")
        assert stalled.passes_of_beams == before, "no pass begins after the deadline"


def test_a_query_that_waits_past_its_deadline_says_that_nothing_was_complete(engines: dict[str, Engine]) -> None:
    gated = Gated(engines["retro"])
    with serving({"retro": gated}) as service:
        busy = start(lambda: service.client().predict("CCO", task="retro", n=2, max_len=12))
        until(lambda: gated.batches, "the first batch")
        began = time.monotonic()
        status, document, _ = service.send("POST", "/v1/predict", {**ASKED, "within": 0.2})
        assert time.monotonic() - began < 30.0
        gated.gate.set()
        busy.join()
    assert status == 200, document
    (result,) = document["results"]
    assert (result["status"], result["within"]["width"], result["hypotheses"]) == ("failed", 0, [])
    assert "no answer was complete within 0.2 s" in result["message"]


@pytest.mark.parametrize("wrong", [{"within": 0.0}, {"within": 1.0, "augment": 2}, {"within": "soon"}])
def test_deadlines_that_cannot_be_kept_are_refused(running: Running, wrong: dict[str, Any]) -> None:
    assert running.send("POST", "/v1/predict", {**ASKED, **wrong})[0] == 422
