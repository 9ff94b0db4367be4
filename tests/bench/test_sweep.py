"""Two loops for all benchmarks: rows in order, each beside its baseline, and timed rows by turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from chemspec.bench import sweep
from chemspec.bench.sweep import Setting, race_settings, sweep_settings
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis

PLAIN = DecodeSettings(decoder="greedy", n=1, drafter="none", batch_size=1)


def answering(order: list[tuple[str, str]]) -> Any:
    """An engine whose answers are the queries, or their first letters with the drafter `copy`."""

    def predict(queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        order.extend((settings.drafter, query) for query in queries)
        texts = [query[: 1 if settings.drafter == "copy" else None] for query in queries]
        return [
            DecodeResult(text, "ok", "", (Hypothesis(text, text, True, tuple(text), (-1.0,), -1.0, 0.4, 0.4),))
            for text in texts
        ]

    return SimpleNamespace(predict=predict)


def test_rows_know_their_baselines_and_progress_ends_at_the_total() -> None:
    short = replace(PLAIN, drafter="copy")
    settings = [Setting("a", PLAIN, "a"), Setting("b", short, "a"), Setting("c", PLAIN, "a"), Setting("d", PLAIN)]
    seen: list[tuple[int, int]] = []
    rows = sweep_settings(answering([]), ["x", "yy"], settings, progress=lambda *done: seen.append(done))
    assert [row.setting.name for row in rows] == ["a", "b", "c", "d"]
    assert [row.baseline for row in rows] == [None, rows[0], rows[0], None]
    assert [row.same() for row in rows] == [[True, True], [True, False], [True, True], [True, True]]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert rows[0].seconds == ()
    with pytest.raises(ValueError, match="no values"):
        _ = rows[0].times


ENTRIES = [Setting(name, replace(PLAIN, drafter=name)) for name in ("none", "copy")]


def test_rows_take_turns_until_their_seconds_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, order = iter(range(10_000)), list[tuple[str, str]]()
    monkeypatch.setattr(sweep.time, "perf_counter", lambda: next(clock))  # every call takes a second
    engine = answering(order)
    rows = race_settings([(engine, entry) for entry in ENTRIES], ["x", "yy", "z"], seconds=1.5)
    # One untimed answer to the longest each, then by turns; two answers are more than one and a half seconds.
    assert order == [(who, query) for query in ("yy", "x") for who in ("none", "copy")] + [
        ("copy", "yy"),
        ("none", "yy"),
    ]
    assert [(len(row.results), row.seconds, row.sizes) for row in rows] == [(2, (1, 1), (1, 1))] * 2
    assert rows[1].baseline is rows[0] and rows[0].baseline is None


def test_a_round_is_decoded_by_all_before_the_next() -> None:
    order: list[tuple[str, str]] = []
    queries, engine = ["C" * length for length in range(1, 9)], answering(order)
    batched = [entry._replace(settings=replace(entry.settings, batch_size=4)) for entry in ENTRIES]
    rows = race_settings([(engine, entry) for entry in batched], queries, rounds=3)
    assert [len(row.results) for row in rows] == [8, 8] and rows[0].sizes == (4, 4)
    timed = order[8:]  # a warm-up of the longest comes first
    assert [who for who, _ in timed[::4]] == ["none", "copy"] * 3 + ["copy", "none"] * 3
    assert sorted(timed) == sorted((who, query) for who in ("none", "copy") for query in queries * 3)
    assert [result.query for result in rows[0].results] == [query for who, query in timed[:4] + timed[28:32]]
