"""Shadow measurement: which questions, what is compared, counted and stored, and that nothing waits for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from small import QUERIES, tiny_folder

from chemspec.engine.engine import Engine
from chemspec.io import shadow
from chemspec.io.receipts import read_receipts, verify_receipts
from chemspec.io.shadow import Shadow, ShadowCounts
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

SETTINGS = DecodeSettings(n=3, max_len=12, drafter="windows", drafting="fixed")
MONDAY, TUESDAY = date(2026, 11, 23), date(2026, 11, 24)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine.load(tiny_folder(tmp_path_factory.mktemp("models") / "retro", seed=4), threads=1)


@dataclass
class Lying:
    """An engine whose standard answers are not those of drafted decoding: one log-prob is a little off."""

    engine: Engine
    off: float = 1e-6
    asked: list[DecodeSettings] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def _spoil(self, result: DecodeResult) -> DecodeResult:
        first, *others = result.hypotheses
        return replace(result, hypotheses=(replace(first, log_prob=first.log_prob + self.off), *others))

    def decode(self, ready: Sequence[Any], settings: DecodeSettings, **options: Any) -> list[DecodeResult]:
        self.asked.append(settings)
        return [self._spoil(result) for result in self.engine.decode(ready, settings, **options)]

    def stream(self, query: Any, settings: DecodeSettings) -> Iterator[Any]:
        self.asked.append(settings)
        for event in self.engine.stream(query, settings):
            yield self._spoil(event) if isinstance(event, DecodeResult) else event


def offer(
    measured: Shadow, engine: Any, query: str = "CCO", settings: DecodeSettings = SETTINGS, **options: Any
) -> bool:
    ready = engine.prepare(query)
    served = getattr(engine, "engine", engine).predict(query, settings)
    return measured.offer(engine, ready, settings, served, **options)


def never() -> bool:
    return False


def lines(folder: Path) -> list[dict[str, Any]]:
    file = folder / shadow.DIFFERENCES_FILE
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(("fraction", "taken"), [(0.05, [20, 40]), (0.4, [3, 5, 8]), (1.0, [1, 2, 3])])
def test_a_deterministic_fraction_is_taken(tiny: Engine, tmp_path: Path, fraction: float, taken: list[int]) -> None:
    measured = Shadow(fraction, tmp_path, "test")
    ready, served = tiny.prepare("CCO"), tiny.predict("CCO", SETTINGS)
    chosen = [number for number in range(1, 41) if measured.offer(tiny, ready, SETTINGS, served)]
    assert chosen[: len(taken)] == taken
    assert len(chosen) == round(40 * fraction)


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5, float("nan")])
def test_other_fractions_are_refused(tmp_path: Path, fraction: float) -> None:
    with pytest.raises(ValueError, match="fraction"):
        Shadow(fraction, tmp_path, "test")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("is_distinct", [False, True])
def test_equal_answers_are_counted_and_no_molecule_is_stored(
    tiny: Engine, tmp_path: Path, streamed: bool, is_distinct: bool
) -> None:
    seen: list[tuple[str, ShadowCounts]] = []
    measured = Shadow(1.0, tmp_path / "home", "test", measured=lambda *one: seen.append(one))
    settings = replace(SETTINGS, distinct=is_distinct)
    for query in QUERIES:
        assert offer(measured, tiny, query, settings, streamed=streamed)
    while measured.pending:
        assert measured.run_next(never)
    counts = measured.counts
    assert (counts.questions, counts.differ) == (len(QUERIES), 0)
    assert counts.tokens > counts.passes > 0
    assert counts.seconds > 0
    assert counts.standard_seconds > 0
    assert [name for name, _ in seen] == ["retro"] * len(QUERIES)
    assert f"today: {len(QUERIES)} questions, " in counts.sentence
    assert counts.sentence.endswith("times as fast, 0 answers differ")
    (file,) = (tmp_path / "home").iterdir()
    assert "CC" not in file.read_text()
    assert os.name != "posix" or file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("streamed", [False, True])
def test_a_different_answer_is_stored_with_all_that_repeats_it(tiny: Engine, tmp_path: Path, streamed: bool) -> None:
    told: list[tuple[Path, bool]] = []
    measured = Shadow(1.0, tmp_path, "test", differs=lambda *one: told.append(one), today=lambda: MONDAY)
    lying = Lying(tiny)
    offer(measured, lying, streamed=streamed)
    assert measured.run_next(never)
    assert [settings.drafter for settings in lying.asked] == ["windows", "none"]
    assert measured.counts.differ == 1
    assert measured.counts.sentence.endswith("1 answer differs")
    file = tmp_path / shadow.DIFFERENCES_FILE
    assert told == [(file, True)]
    (row,) = lines(tmp_path)
    served = tiny.predict("CCO", SETTINGS)
    assert row["query"] == "CCO"
    assert row["receipt"]["digest"] == tiny.digest
    assert row["receipt"]["settings"]["drafter"] == "windows"
    assert [one["log_prob"] for one in row["hypotheses"]] == [one.log_prob for one in served.hypotheses]
    assert row["standard"][0]["log_prob"] == served.hypotheses[0].log_prob + lying.off
    assert "log-prob" in row["difference"]
    assert os.name != "posix" or file.stat().st_mode & 0o777 == 0o600
    stored = read_receipts(file)  # `chemspec verify` repeats it
    assert list(verify_receipts(stored, lambda *_: tiny, progress=lambda *_: None)) == []


def test_which_repetition_comes_first_alternates(tiny: Engine, tmp_path: Path) -> None:
    measured, lying = Shadow(1.0, tmp_path, "test"), Lying(tiny)
    for _ in range(3):
        offer(measured, lying)
        measured.run_next(never)
    drafters = [settings.drafter for settings in lying.asked]
    assert drafters == ["windows", "none", "none", "windows", "windows", "none"]


def test_the_file_of_differences_stops_growing_over_restarts(
    tiny: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []
    for _ in range(3):  # three processes, one after the other
        measured = Shadow(1.0, tmp_path, "test", differs=lambda _, stored: told.append(stored))
        offer(measured, Lying(tiny))
        measured.run_next(never)
        size = (tmp_path / shadow.DIFFERENCES_FILE).stat().st_size
        monkeypatch.setattr(shadow, "LIMIT", 5 * size // 2 if len(told) == 1 else shadow.LIMIT)
    assert told == [True, True, False]
    assert len(lines(tmp_path)) == 2
    assert measured.counts.differ == 3


def test_counts_of_the_day_survive_a_restart_and_a_new_day_begins_at_zero(tiny: Engine, tmp_path: Path) -> None:
    days = [MONDAY]
    first = Shadow(1.0, tmp_path, "test", today=lambda: days[0])
    offer(first, tiny)
    first.run_next(never)
    again = Shadow(1.0, tmp_path, "test", today=lambda: days[0])
    assert again.counts == first.counts
    assert Shadow(1.0, tmp_path, "other", today=lambda: days[0]).counts.questions == 0
    days[0] = TUESDAY
    assert again.counts == ShadowCounts("2026-11-24")
    offer(again, tiny)
    again.run_next(never)
    assert (again.counts.day, again.counts.questions) == ("2026-11-24", 1)
    for damaged in ("", "[]", '{"day": 3}', '{"day": "2026-11-24", "questions": "x"}'):
        (tmp_path / "shadow-test.json").write_text(damaged)
        assert Shadow(1.0, tmp_path, "test", today=lambda: days[0]).counts.questions == 0


def test_a_question_that_arrives_ends_the_repetition_within_a_pass(tiny: Engine, tmp_path: Path) -> None:
    measured = Shadow(1.0, tmp_path, "test")
    offer(measured, tiny, "CC(=O)Nc1ccccc1", streamed=True)
    calls: list[int] = []

    def interrupted() -> bool:
        calls.append(1)
        return len(calls) == 3

    assert not measured.run_next(interrupted)
    assert len(calls) == 3, "nothing is computed after it was noticed"
    assert measured.pending == 1, "tried again later"
    assert measured.run_next(never)
    offer(measured, tiny)
    for _ in range(shadow.MOST_TRIES):
        assert not measured.run_next(lambda: True)
    assert measured.pending == 0, "a question that is interrupted again and again is dropped"
    assert measured.counts.questions == 1


def test_what_cannot_be_compared_is_not_taken(tiny: Engine, tmp_path: Path) -> None:
    measured = Shadow(1.0, tmp_path, "test")
    for settings in (replace(SETTINGS, drafter="none"), replace(SETTINGS, record=True)):
        assert not offer(measured, tiny, settings=settings)
    ready, served = tiny.prepare("CCO"), tiny.predict("CCO", SETTINGS)
    assert not measured.offer(tiny, ready, SETTINGS, replace(served, status="failed"))
    assert not measured.offer(tiny, ready, SETTINGS, tiny.predict("CCO", SETTINGS, within=60.0))
    relaxed = DecodeSettings(decoder="sbs", n=3, max_len=12)
    assert not measured.offer(tiny, ready, relaxed, served)


def test_a_model_that_fails_or_a_full_disk_ends_nothing(
    tiny: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Lying):
        def decode(self, *_: Any, **__: Any) -> list[DecodeResult]:
            raise RuntimeError("CCO is broken")

    measured = Shadow(1.0, tmp_path, "test")
    offer(measured, Broken(tiny))
    assert not measured.run_next(never)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(shadow, "write_text_atomic", full)
    monkeypatch.setattr(shadow, "open_private", full)
    offer(measured, Lying(tiny))
    assert measured.run_next(never)
    assert (measured.counts.questions, measured.counts.differ) == (1, 1)


def test_the_oldest_of_too_many_pending_questions_is_dropped(
    tiny: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "MOST_PENDING", 2)
    measured = Shadow(1.0, tmp_path, "test")
    for query in QUERIES[:4]:
        offer(measured, tiny, query)
    assert measured.pending == 2
