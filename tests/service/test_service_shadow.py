"""Idle devices decode questions again without drafts; a user's question never waits for that."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving import Wrapped, serving, until
from small import QUERIES

from chemspec.engine.engine import Engine
from chemspec.types import DecodeResult

pytest.importorskip("fastapi")

ASKED = {"task": "retro", "n": 3, "max_len": 12, "drafter": "windows", "drafting": "fixed"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


class Lying(Wrapped):
    """An engine whose standard answers have another log-prob."""

    def decode(self, *given: Any, **options: Any) -> list[DecodeResult]:
        (result,) = self._engine.decode(*given, **options)
        first, *others = result.hypotheses
        return [replace(result, hypotheses=(replace(first, log_prob=-1.5), *others))]


class Endless(Wrapped):
    """An engine whose standard answers need passes without end."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.passes = 0
        self.passes_while_others_wait = 0
        self.waiting: Callable[[], int] = lambda: 0

    def decode(self, _: Sequence[Any], __: Any, *, before_pass: Callable[[], None]) -> list[DecodeResult]:
        while True:
            waited = self.waiting() > 0
            before_pass()
            self.passes += 1
            self.passes_while_others_wait += waited
            time.sleep(0.001)


def test_equal_answers_are_counted_in_the_metrics(engines: dict[str, Engine], home: Path) -> None:
    with serving([engines], shadow=0.5) as service:
        results = service.client().predict(QUERIES, **ASKED)
        taken = sum(result.status == "ok" for result in results) // 2
        until(lambda: service.count("shadow_questions_total", model="retro") == taken, "the repetitions")
        assert service.count("shadow_different_answers_total", model="retro") == 0
        assert service.count("shadow_tokens_total", model="retro") >= service.count(
            "shadow_passes_total", model="retro"
        )
        assert str(home) in service.send("GET", "/metrics")[1]
        shadow = service.service.shadow
        assert shadow is not None
        assert shadow.counts.questions == taken
    assert [file.name for file in home.iterdir()] == ["shadow-service.json"]
    with serving([engines], shadow=0.5) as service:  # started again
        assert service.service.shadow is not None
        assert service.service.shadow.counts.questions == taken


def test_different_answers_are_counted_logged_without_the_query_and_stored(
    engines: dict[str, Engine], home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "chemspec.service"),
        serving([{"retro": Lying(engines["retro"])}], shadow=1.0) as service,
    ):
        served = service.client().predict("CCO", **ASKED)
        until(lambda: service.count("shadow_different_answers_total", model="retro"), "the difference")
    alone = engines["retro"].predict("CCO", n=3, max_len=12)
    assert [answer.log_prob for answer in served.answers] == [answer.log_prob for answer in alone.hypotheses]
    (row,) = map(json.loads, (home / "shadow-differences.jsonl").read_text().splitlines())
    assert (row["query"], row["standard"][0]["log_prob"]) == ("CCO", -1.5)
    (record,) = [record for record in caplog.records if record.getMessage() == "shadow_difference"]
    assert record.log_fields == {"file": str(home / "shadow-differences.jsonl"), "stored": True}  # type: ignore[attr-defined]


def test_a_repetition_delays_no_question(engines: dict[str, Engine]) -> None:
    endless = Endless(engines["retro"])
    with serving([{"retro": endless}], shadow=1.0) as service:
        endless.waiting = lambda: service.count("queue_queries")
        for number, query in enumerate(QUERIES):
            before = endless.passes
            assert service.client().predict(query, **ASKED).status == "ok"
            until(lambda before=before: endless.passes > before, f"repetition {number}")
    assert endless.passes_while_others_wait == 0
    assert service.count("shadow_questions_total", model="retro") == 0


def test_without_the_option_nothing_is_decoded_again(engines: dict[str, Engine], home: Path) -> None:
    with serving([engines]) as service:
        service.client().predict(QUERIES, **ASKED)
        assert service.service.shadow is None
        text = service.send("GET", "/metrics")[1]
        assert "shadow_questions_total{" not in text
        assert "shadow_differences_file" not in text
    assert not home.exists()
