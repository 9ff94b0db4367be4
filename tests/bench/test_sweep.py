"""One loop for all benchmarks: rows in order, each beside its baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chemspec.bench.sweep import Row, Setting, sweep_settings
from chemspec.settings import DecodeSettings

PLAIN = DecodeSettings(decoder="greedy", n=1, drafter="none")


def test_rows_know_their_baselines_and_progress_ends_at_the_total() -> None:
    def measure(_: Any, queries: Sequence[str], setting: Setting) -> list[Row]:
        answers = [[(query, setting.name[0])] for query in queries]
        return [Row(setting, answers), Row(setting, answers[:1])]

    settings = [Setting("a", PLAIN, "a"), Setting("b", PLAIN, "a"), Setting("ab", PLAIN, "a"), Setting("c", PLAIN)]
    seen: list[tuple[int, int]] = []
    rows = sweep_settings(None, ["x", "y"], settings, measure=measure, progress=lambda *done: seen.append(done))  # type: ignore[arg-type]
    assert [row.setting.name for row in rows] == ["a", "a", "b", "b", "ab", "ab", "c", "c"]
    assert [row.baseline is not None for row in rows] == [False, False, True, True, True, True, False, False]
    assert all(row.baseline is rows[0] for row in rows[2:6])
    assert [rows[place].same() for place in (0, 2, 4, 5)] == [[True] * 2, [False] * 2, [True] * 2, [True]]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
