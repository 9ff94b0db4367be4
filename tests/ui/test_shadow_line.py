"""The app decodes questions again while it is idle, and shows on Speed what that measured."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from serving import until
from small import QUERIES, tiny_folder

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.engine.engine import Engine
from chemspec.io.shadow import Shadow
from chemspec.settings import DecodeSettings
from chemspec.system.fair_queue import FairQueue
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine
from chemspec.ui.common.queued_engine import ShadowWorker

pytestmark = pytest.mark.ui
SETTINGS = DecodeSettings(n=3, max_len=12, drafter="windows", drafting="fixed")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine.load(tiny_folder(tmp_path_factory.mktemp("models") / "retro", seed=4), threads=1)


class Slow:
    """An engine whose decoding stops after every pass until the gate opens."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.gate = threading.Event()
        self.passes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def stream(self, query: str, settings: DecodeSettings) -> Iterator[Any]:
        for event in self._engine.stream(query, settings):
            if not isinstance(event, DecodeResult):
                self.passes += 1
                self.gate.wait(60.0)
            yield event


def offer_all(worker: ShadowWorker, engine: Any, served: Sequence[DecodeResult]) -> None:
    for result in served:
        worker.offer(engine, result.query, SETTINGS, result)


def test_offered_questions_are_decoded_again_while_idle(tiny: Engine, tmp_path: Path) -> None:
    worker = ShadowWorker(Shadow(1.0, tmp_path, "app"), FairQueue(), idle=0.01)
    offer_all(worker, tiny, tiny.predict(QUERIES, SETTINGS))
    until(lambda: worker.shadow.counts.questions == len(QUERIES), "the repetitions")
    assert worker.shadow.counts.differ == 0


def test_a_visitor_waits_for_one_pass_at_most(tiny: Engine, tmp_path: Path) -> None:
    queue, slow = FairQueue(), Slow(tiny)
    worker = ShadowWorker(Shadow(1.0, tmp_path, "app"), queue, idle=0.01)
    served = tiny.predict(QUERIES[:1], SETTINGS)
    with queue.wait_for_turn(visitor="first"):
        offer_all(worker, slow, served)
        assert slow.passes == 0, "nothing is decoded again while a visitor's question is"
    until(lambda: slow.passes == 1, "the first pass")
    arrived, done = threading.Event(), threading.Event()

    def visit() -> None:
        arrived.set()
        with queue.wait_for_turn(visitor="second"):
            done.set()

    visitor = threading.Thread(target=visit)
    visitor.start()
    arrived.wait()
    until(lambda: len(queue) == 2, "the visitor in the queue")
    slow.gate.set()
    assert done.wait(60.0)
    assert slow.passes >= 1
    visitor.join()
    until(lambda: worker.shadow.counts.questions == 1, "the repetition, afterwards")
    both = [tiny.predict(QUERIES[0], SETTINGS, drafter=drafter) for drafter in ("windows", "none")]
    assert slow.passes == 1 + sum(len(result.trace.passes) for result in both), (
        "the first try ended after the pass that was under way"
    )


def test_the_page_speed_shows_the_counts(tiny: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def page() -> None:
        from chemspec.ui.speed import race_page

        race_page.show_shadow_line()

    monkeypatch.setattr(queued_engine, "shadow_worker", lambda: None)
    assert not AppTest.from_function(page).run().caption
    worker = ShadowWorker(Shadow(1.0, tmp_path, "app"), FairQueue(), idle=0.01)
    monkeypatch.setattr(queued_engine, "shadow_worker", lambda: worker)
    assert AppTest.from_function(page).run().caption[0].value == "Today: no question decoded again yet."
    offer_all(worker, tiny, [tiny.predict(query, SETTINGS) for query in QUERIES[:2]])
    until(lambda: worker.shadow.counts.questions == 2, "the repetitions")
    (line,) = AppTest.from_function(page).run().caption
    assert line.value.startswith("Today: 2 questions, ")
    assert line.value.endswith(" times as fast, 0 answers differ.")


@pytest.mark.parametrize(("fraction", "is_on"), [("", False), ("0.05", True), ("2", False), ("often", False)])
def test_it_is_off_unless_a_fraction_is_set(
    fraction: str, is_on: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CHEMSPEC_SHADOW", fraction)
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    queued_engine.shadow_worker.clear()
    try:
        assert (queued_engine.shadow_worker() is not None) == is_on
    finally:
        queued_engine.shadow_worker.clear()
