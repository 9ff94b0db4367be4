"""The papers' suite: complete tables, fair comparisons, and a page of which only the marked section changes."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from helpers.small import QUERIES
from helpers.small_bench import bench_papers, folder_with_drafters, papers_in_small
from rich.console import Console

from chemspec.bench import papers
from chemspec.bench.settings import PapersSettings
from chemspec.bench.sweep import Row, Setting
from chemspec.engine.engine import Engine
from chemspec.evaluation.measurements import store_measurements
from chemspec.plugins import DRAFTERS
from chemspec.settings import DecodeSettings
from chemspec.terminal import console
from chemspec.types import DecodeResult, Hypothesis, Pass, Trace


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_with_drafters(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def _home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    papers_in_small(home, monkeypatch)


def sets_in(folder: Path) -> Path:
    """Test sets whose answers are known."""
    columns = {"forward": ["reactants_and_reagents", "main_product"], "retro": ["product", "reactants"]}
    for task, names in columns.items():
        with gzip.open(folder / f"{task}_test.csv.gz", "wt", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows((text, text) for text in QUERIES)
    return folder


def test_the_command_writes_the_numbers(tmp_path: Path) -> None:
    report = json.loads(bench_papers(tmp_path, "--json").stdout)
    assert json.loads((tmp_path / "papers.json").read_text(encoding="utf-8")) == report
    with (tmp_path / "papers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(report[table]) for table in papers.TIMED)
    assert papers.NO_TRUTH in report["notes"]
    assert report["notes"][0].startswith("Left out for forward, which has no such drafter: ar (")
    assert "hierarchy and" not in report["notes"][0] and "medusa (1 rows)" not in report["notes"][0]
    assert "Batches of 32 hold 2 queries here: there are no more." in report["notes"]


def test_the_command_prints_tables_of_100_columns_with_the_papers_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(console, "answers", Console(width=100, force_terminal=True, color_system=None))
    done = bench_papers(Path("here"))
    assert not Path("assets").exists()
    assert not any(line.startswith("{") for line in done.stdout.splitlines())
    assert max(map(len, done.stdout.splitlines())) <= 100
    (row,) = (line for line in done.stdout.splitlines() if " windows DL=10" in line)
    assert "3.62 (A2)" in row and "[" in row  # two queries tell little
    assert "\u2026" not in done.stdout


def test_rows_are_complete_and_exact_ones_change_nothing(tmp_path: Path) -> None:
    suite = PapersSettings(source=sets_in(tmp_path), limit=3, seconds=60.0, threads=1)
    seen: list[tuple[int, int]] = []
    report = papers.measure_tables(suite, progress=lambda *done: seen.append(done))
    timed = [row for table in papers.TIMED for row in report[table]]
    assert seen[-1][0] == seen[-1][1] == len(seen) == len(timed)
    for row in [*timed, *report["alone"]]:
        assert row["queries"] == 3
        assert row["q1_ms"] <= row["median_ms"] <= row["q3_ms"]
        standard = row["name"] == "the model" or (row["drafter"] == "none" and row["exact"])
        assert (row["speedup"] is None) == (standard and row not in report["alone"][1:])
        if row["decoder"] in ("speculative-sample", "block-sample"):
            assert row["same_list"] is None
        elif row["exact"] and not standard:
            assert row["same_list"] == 1.0
    assert [(row["decoder"], row["drafter"]) for row in report["retro"] if not row["exact"]] == [
        ("sbs", "windows"),
        ("sbs", "none"),
    ]
    assert report["accuracy"] == []  # of three queries
    assert [row["name"] for row in report["alone"]] == ["the model", "ar", "medium"]
    assert set(report["speedups"]) >= {"forward, auto, B=1", "retro, greedy, auto"}
    learned = {row["name"]: row for row in report["learned"]}
    assert {f"retro, greedy B=1, {name}" for name in ("ar", "hierarchy", "spec_drafter", "spec_drafter k=5")} <= set(
        learned
    )
    assert not learned["retro, relaxed, beta=3 tau=1"]["exact"]
    assert not any(name.startswith("forward") and "spec_drafter" in name for name in learned)
    small, both = (learned[f"retro, greedy B=1, {name}"]["weights_mb"] for name in ("ar", "hierarchy"))
    assert both == 2 * small > 0 == learned["retro, greedy B=1, mixed"]["weights_mb"]


def made(name: str, seconds: list[float], answers: list[str], *, passes: int = 4) -> Row:
    trace = Trace((), {}, tuple(Pass(1, 1, 0, 1, 0, 1.0, 1, 0.0, 0.0) for _ in range(passes)))
    results = tuple(
        DecodeResult(f"q{number}", "ok", "", (Hypothesis(text, text, True, (*text,), (-1.0,), -1.0, 0.4, 0.4),), trace)
        for number, text in enumerate(answers)
    )
    setting = Setting(name, DecodeSettings(decoder="greedy", n=1, batch_size=1), "standard")
    return Row.of(setting, results, seconds=tuple(seconds), sizes=(1,) * len(seconds))


def test_a_row_that_was_cut_short_is_compared_on_its_own_queries() -> None:
    """The standard's slow queries, which the other did not get to, do not count."""
    standard = made("standard", [1.0, 1.0, 9.0, 9.0, 9.0], ["C", "N", "O", "O", "O"])
    slow = replace(made("slow", [2.0, 2.0], ["C", "O"], passes=2), baseline=standard)
    row = papers.report_row(slow, {})
    assert (row["speedup"], row["same_list"], row["queries"]) == (0.5, 0.5, 2)
    assert papers.speedups_per_query(slow) == [(0.5, 2.0), (0.5, 2.0)]
    truth = {f"q{place}": "C" if place < 2 else "O" for place in range(5)}
    scored = papers.accuracy_row("forward", slow, truth)
    assert (scored["queries"], scored["top"]["1"]["value"], scored["standard"]["1"]["value"]) == (2, 0.5, 0.5)
    assert scored["top"]["1"]["low"] < 0.5 < scored["top"]["1"]["high"]


@pytest.mark.parametrize(
    ("queries", "timings", "text"),
    [
        (30, 30, "2.00 (1.50-2.50)"),
        (29, 29, "[2.00 (1.50-2.50)]"),
        (4, 4, "[2.00]"),
        (64, 2, "[2.00]"),
        (64, 8, "2.00 (1.50-2.50)"),
    ],
)
def test_a_speedup_that_rests_on_little_stands_in_brackets(queries: int, timings: int, text: str) -> None:
    speedup = {"speedup": 2.0, "speedup_low": 1.5, "speedup_high": 2.5}
    row = {"queries": queries, "timings": timings, "exact": True, **speedup}
    assert papers.format_speedup(row) == text
    assert papers.format_speedup({**row, "speedup": None}) is None
    answered = papers.display_row(row)["answered"]
    assert answered == (str(queries) if queries == timings else f"{queries} in {timings}")


def test_numbers_of_other_weights_are_not_told_beside_the_papers(home: Path) -> None:
    engine = Engine.load(home / "forward", threads=1)
    counted = {"top": {"1": {"value": 0.5, "low": 0.4, "high": 0.6}}, "settings": {"n": 5}, "reactions": 100}
    for digest, rows in (("another", 0), (engine.digest, 2)):
        store_measurements(
            engine.folder,
            ["accuracy"],
            counted,
            digest=digest,
            command="evaluate --source /home/me/data -n 5",
            today=date(2026, 1, 1),
        )
        assert len(papers.card_accuracy_rows(engine)) == rows
    paper, ours = papers.card_accuracy_rows(engine)
    assert (paper["top"]["1"]["value"], ours["top"]["1"]["value"]) == (0.884, 0.5)
    assert ours["command"] == "evaluate --source FOLDER -n 5"  # and nobody's folder in a document


def test_every_figure_of_a_paper_stands_beside_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    retro = papers.settings_by_table("retro", list(DRAFTERS))
    table = {
        setting.name: (setting.facts["paper"], setting.facts["paper_accepted"])
        for rows in retro.values()
        for setting in rows
    }
    assert table["n=10, SBS DL=10"] == ("2.59 (A3)", "")
    assert table["n=10, exact, mixed"] == ("", "")
    assert table["retro, greedy B=1, spec_drafter k=10"] == ("3.6 (X3)", "6.05 (X3)")
    assert table["retro, sampled-beam 5, ar"] == ("0.45 (T3)", "75 % (T3)")
