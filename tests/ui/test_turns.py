"""The queue of the pages: one at work, fair between visitors, its place told, and full when it is full."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.serving import until

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.settings import DecodeSettings
from chemspec.system import fair_queue
from chemspec.system.fair_queue import BusyError, FairQueue
from chemspec.ui.common import queued_engine


class Line:
    """A queue whose head is held, with threads behind it that say when they had their turn."""

    def __init__(self, turns: FairQueue) -> None:
        self.turns, self.done, self.threads = turns, [], []
        self.go = threading.Event()
        self.places: dict[str, list[int]] = {}
        self.add("first", "nobody")
        until(lambda: turns._busy, "the first turn")

    def add(self, name: str, visitor: Any) -> None:
        before = len(self.turns)

        def ask() -> None:
            told = self.places.setdefault(name, [])
            with self.turns.wait_for_turn(visitor=visitor, waiting=told.append):
                self.go.wait(60)
                self.done.append(name)

        self.threads.append(threading.Thread(target=ask, daemon=True))
        self.threads[-1].start()
        until(lambda: len(self.turns) > before, "a place in the queue")

    def finish(self) -> list[str]:
        self.go.set()
        for thread in self.threads:
            thread.join(60)
        return self.done[1:]


def test_who_has_many_tabs_gets_one_turn_before_others_who_wait_have_had_one() -> None:
    line = Line(FairQueue())
    for name, visitor in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("b2", "b")):
        line.add(name, visitor)
    line.add("e1", "e")
    until(lambda: line.places["e1"], "the place told")
    assert line.places["e1"][-1] == 4, "the one at work, and the first of a, b and c"
    assert line.finish() == ["a1", "b1", "c1", "e1", "a2", "b2", "a3"]


def test_unknown_visitors_are_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "MAX_OF_ONE_VISITOR", 1)
    line = Line(FairQueue())
    for name in "abc":
        line.add(name, None)
    assert line.finish() == ["a", "b", "c"]


def test_too_many_questions_are_refused_at_once_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "MAX_WAITING", 3)
    monkeypatch.setattr(fair_queue, "MAX_OF_ONE_VISITOR", 2)
    turns = FairQueue()
    line = Line(turns)
    line.add("a1", "a")
    line.add("a2", "a")
    with pytest.raises(BusyError, match="2 of your queries"), turns.wait_for_turn(visitor="a"):
        raise AssertionError("never reached")
    line.add("b1", "b")
    with pytest.raises(BusyError, match="3 queries are waiting already; try again"), turns.wait_for_turn(visitor="c"):
        raise AssertionError("never reached")
    assert line.finish() == ["a1", "b1", "a2"]
    with turns.wait_for_turn(visitor="a"):
        assert len(turns) == 1


def page() -> None:
    import streamlit as st

    from chemspec.ui.common import login, queued_engine

    st.write(login.visitor_id())
    with queued_engine.hold_turn():
        st.write("never reached")


def test_a_page_says_that_it_is_full_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "MAX_WAITING", 0)
    app = AppTest.from_function(page).run()
    assert not app.exception
    assert "0 queries are waiting already; try again in a minute" in app.error[0].value
    assert [len(one.value) for one in app.markdown] == [16], "who it is: a digest, and no more"


def test_an_answer_of_a_model_with_another_vocabulary_is_none_of_this_one(
    state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        queued_engine, "decode_query", lambda model, *_, **__: (asked.append(model), SimpleNamespace(status="ok"))[1]
    )
    models: list[Any] = [
        SimpleNamespace(digest="0" * 16, full_digest=f"{'0' * 16}-{vocabulary}", dtype="fp32")
        for vocabulary in ("11111111", "22222222")
    ]
    for model in (models[0], models[0], models[1]):
        queued_engine.cached_prediction(model, "CCO", DecodeSettings())
    assert asked == models


def test_a_position_is_reported_when_it_changes_and_not_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each report makes the browser draw: fifty that wait, at ten a second, once kept the machine from answering."""
    from chemspec.ui.common import queued_engine

    said: list[str] = []
    clock = iter([0.0, 0.0, 1.5, 2.1, 2.1]).__next__
    monkeypatch.setattr(queued_engine.time, "monotonic", clock)
    report = queued_engine.position_report(said.append)
    for ahead in (9, 9, 8, 8, 8):  # reported, the same, within two seconds, reported, the same
        report(ahead)
    assert said == ["In queue: 9 ahead of you", "In queue: 8 ahead of you"]


def test_a_free_turn_is_taken_only_where_nobody_runs_or_waits() -> None:
    turns = FairQueue()
    with turns.take_free_turn() as free:
        assert free and len(turns) == 1
        with turns.take_free_turn() as second:
            assert not second
        assert len(turns) == 1, "who got none gives none back"
    assert len(turns) == 0
    line = Line(turns)
    line.add("waits", "somebody")
    with turns.take_free_turn(0.01) as free:
        assert not free
    line.go.set()
    until(lambda: len(line.done) == 2, "both turns")
    with turns.take_free_turn(60) as free:
        assert free
