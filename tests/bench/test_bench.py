"""The benchmark: its rows are complete, its comparisons are of like with like."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import call, last
from helpers.small import two_tiny_folders
from helpers.small_bench import bench_in_small
from rich.console import Console

from chemspec.bench import speed
from chemspec.bench.settings import BenchSettings
from chemspec.bench.sweep import Row, Setting, paired_ratio
from chemspec.importers import model_formats
from chemspec.settings import DecodeSettings

NAMED = (
    "task engine decoder drafter n batch dtype median_ms q1_ms q3_ms passes_per_query drafted_per_query nodes_per_pass "
    "tokens_per_pass speedup identical"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_tiny_folders(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def _home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench_in_small(home, monkeypatch)


def test_json_ends_with_one_document_with_the_named_fields() -> None:
    few = ["--limit", 2, "--widths", 2, "--batches", "1,2", "--threads", 1, "--dtype", "fp32"]
    report = last(call("bench", *few, "--drafters", "none,copy", "--json"))
    assert list(report) == ["machine", "rows"]
    for row in report["rows"]:
        assert set(NAMED.split()) <= set(row)
        assert row["queries"] == 2
        assert row["q1_ms"] <= row["median_ms"] <= row["q3_ms"]
        assert row["tokens_per_second"] > 0
        assert row["version"]
        assert row["same_first"] == 1.0
    cases = [(r["task"], r["decoder"], r["n"], r["batch"], r["engine"], r["drafter"]) for r in report["rows"]]
    assert cases == [
        (task, decoder, n, batch, engine, drafter)
        for task, decoder, n in (("forward", "greedy", 1), ("retro", "beam", 2))
        for batch in (1, 2)
        for engine, drafter in (("chemspec", "none"), ("chemspec", "copy"))
    ]


def timed(seconds: Sequence[float], sizes: Sequence[int], answers: list[list[tuple[int, ...]]]) -> Row:
    return Row(Setting("", DecodeSettings()), answers, seconds=tuple(seconds), sizes=tuple(sizes))


def test_speedups_and_agreement_compare_the_same_queries() -> None:
    """The slow racer ran two easy queries only: the standard counts on these two, not on all."""
    standard = timed([1.0, 1.0, 9.0, 9.0, 9.0], [1] * 5, [[(5, 6), (7,)], [(5,)], [], [], []])
    slow = timed([4.0, 4.0], [1, 1], [[(5, 6), (8,)], [(5,)]])
    row = replace(slow, baseline=standard).report()
    assert row["speedup"] == 0.25
    assert (row["median_ms"], row["queries"]) == (4000, 2)
    assert row["tokens_per_second"] == 5 / 8
    assert (row["same_list"], row["same_first"]) == (0.5, 1.0)
    batched = timed([4.0, 1.0], [4, 1], [[(5,)]] * 5).report()  # times are per query
    assert (batched["median_ms"], batched["mean_ms"], batched["speedup"]) == (1000, 1000, None)


def test_a_ratio_is_told_with_its_interval() -> None:
    middle, low, high = paired_ratio([2.0, 4.0, 6.0, 8.0], [1.0, 1.0, 2.0, 2.0])
    assert middle == 3.5 and 2.0 <= low < middle < high <= 4.0
    assert paired_ratio([3.0], [2.0]) == (1.5, 1.5, 1.5)


def test_the_standard_decoder_is_the_yardstick_in_the_runtime_asked_for() -> None:
    seen: list[tuple[int, int]] = []
    plan = BenchSettings(limit=1, widths=(2, 3), batches=(1,), threads=1, runtime="torch")
    rows = speed.run_benchmark(plan, progress=lambda done, total: seen.append((done, total)))["rows"]
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert {row["runtime"] for row in rows} == {"torch"}
    standard = [row for row in rows if row["drafter"] == "none"]
    assert [(row["speedup"], row["identical"]) for row in standard] == [(1.0, True)] * 3
    assert standard[0]["tokens_per_pass"] == 1.0


def row(**more: Any) -> dict[str, Any]:
    """A row of a report, as far as tables and the sentence read it."""
    facts = {"task": "retro", "engine": "chemspec", "decoder": "beam", "n": 25, "batch": 1, "dtype": "fp32"}
    times = {"median_ms": 1234.5, "passes_per_query": 123.4, "speedup": 1.0, "speedup_low": 0.9, "speedup_high": 11.11}
    return {**facts, "drafter": "none", **times, "same_list": 1.0, "queries": 200, **more}


def printed(*rows: dict[str, Any]) -> str:
    console = Console(width=100, file=io.StringIO())
    console.print(speed.build_table({"rows": rows}))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_the_table_fits_a_terminal_and_says_what_differs() -> None:
    shown = printed(row(), row(drafter="spec_drafter", speedup=2.0, same_list=0.995))
    assert "2.00 (0.90 to 11.11)" in shown and "199 of 200" in shown
    assert len(shown.rstrip("\n").split("\n")) == 3  # nothing is folded
    assert "batch" not in shown and "batch" in printed(row(), row(batch=32))
    assert "nothing drafted" in printed(row(), row(drafter="auto", speedup=0.98, drafted_per_query=0.0))


def test_the_sentence_tells_the_gain_of_every_decoder() -> None:
    greedy = {"decoder": "greedy", "n": 1, "drafter": "auto"}
    rows = [row(), row(drafter="auto", speedup=0.98), row(**greedy, speedup=2.5), row(**greedy, speedup=1.5)]
    told = speed.summary_sentence({"rows": rows})
    assert told == (
        "Speed-up by drafts: beam of 25 0.98, greedy 1.50 to 2.50; 600 of 600 lists of answers are the same."
    )
    assert speed.summary_sentence({"rows": rows[:1]}) == ""
    undrafted = [row(), row(drafter="auto", speedup=0.98, drafted_per_query=0.0)]
    told = speed.summary_sentence({"rows": undrafted})
    assert told.startswith("Speed-up by drafts: beam of 25 nothing drafted; ")


def test_every_precision_is_compared_with_its_own_standard(home: Path) -> None:
    few: Any = {"tasks": ("retro",), "limit": 2, "widths": (1,), "batches": (1,), "threads": 1}
    rows = speed.run_benchmark(BenchSettings(**few, drafters=("copy",), dtypes=("fp32", "int8")))["rows"]
    cases = [(dtype, drafter) for dtype in ("fp32", "int8") for drafter in ("none", "copy")]
    assert [(one["dtype"], one["drafter"]) for one in rows] == cases
    assert all(one["identical"] for one in rows)
    assert [one["speedup"] for one in rows if one["drafter"] == "none"] == [1.0, 1.0]


def test_without_options_the_shipped_models_are_timed_with_and_without_drafts() -> None:
    done = call("bench", "--limit", 2, "--threads", 1)
    assert done.exit_code == 0, done.output
    *_, last = lines = done.stdout.rstrip("\n").split("\n")
    assert last.startswith("Speed-up by drafts: greedy ") and "{" not in done.stdout
    assert last.endswith("12 of 12 lists of answers are the same.")
    cases = [tuple(line.split()[:-1][:2]) for line in lines[1:-1]]
    assert cases == [("forward", "greedy")] * 4 + [("retro", "greedy")] * 4 + [("retro", "beam")] * 4
    assert max(map(len, lines[:-1])) <= 100


def test_a_named_model_is_loaded_once_and_timed_with_the_queries_of_its_task(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = shutil.copytree(home / "retro", tmp_path / "mine")
    loads, load = [], model_formats.load
    monkeypatch.setattr(model_formats, "load", lambda path, options: loads.append(path) or load(path, options))
    rows = last(call("bench", "--model", mine, "--limit", 1, "--threads", 1, "--dtype", "fp32", "--json"))["rows"]
    assert {(one["task"], one["model"]) for one in rows} == {("retro", "mine")} and loads == [mine]
    other = call("bench", "--model", mine, "--task", "forward", "--limit", 1)
    assert other.exit_code == 2 and "is a retro model, not one for forward" in other.output
