"""The papers' suite: complete tables, fair comparisons, and a page of which only the marked section changes."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("vl_convert")

from small import QUERIES, TOKENIZER, tiny_folder
from typer.testing import CliRunner

from chemspec.bench import papers
from chemspec.bench.charts import charts
from chemspec.bench.papers import BEGIN, END, PapersSettings
from chemspec.bench.sweep import Row, Setting
from chemspec.cli import app
from chemspec.evaluation import reference
from chemspec.model import checkpoint, drafter_checkpoints
from chemspec.settings import DecodeSettings
from chemspec.system.energy import Meter
from chemspec.testing import tiny_model
from chemspec.types import DecodeResult, Hypothesis, Pass, Trace

SMALL = {"limit": 3, "seconds": 0.01, "widths": (2,), "batches": (1, 2), "threads": 1}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    target = tiny_folder(folder / "retro-50k", task="retro")
    tiny_folder(folder / "forward", task="forward")
    for seed, kind in enumerate(("ar", "medium")):
        tiny_folder(target / "drafters" / kind, seed=5 + seed)
    config, width = checkpoint.read_config(target)[1], 32
    filler = tiny_model(7, config.vocab_size + 1, d_model=width, heads=4, feedforward=32, max_positions=1024)
    drafter_checkpoints.save(
        target / "drafters" / "spec_drafter", filler.float(), TOKENIZER, kind="spec_drafter", length=15
    )
    return folder


@pytest.fixture(autouse=True)
def _home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(home))
    monkeypatch.setattr(reference, "bench_queries", lambda _: tuple(QUERIES))
    short = DecodeSettings

    def settings(**options: Any) -> DecodeSettings:
        return short(**{"max_len": 10, **options})

    monkeypatch.setattr(papers, "DecodeSettings", settings)


def sets_in(folder: Path) -> Path:
    """Test sets whose answers are known."""
    columns = {"forward": ["reactants_and_reagents", "main_product"], "retro": ["product", "reactants"]}
    for task, names in columns.items():
        with gzip.open(folder / f"{task}_test.csv.gz", "wt", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows((text, text) for text in QUERIES)
    return folder


def test_the_command_writes_page_charts_and_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"widths": (2, 3), "batches": (1, 2)}
    monkeypatch.setattr(papers, "PapersSettings", lambda **options: PapersSettings(**options, **few))
    page = tmp_path / "benchmarks.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\n# After\n", encoding="utf-8")
    words = ["dev", "papers", "--out", str(tmp_path), "--limit", "2", "--seconds", "0.01", "--threads", "1"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout.rstrip("\n").split("\n")[-1])
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# Before\n\n{BEGIN}\n## The papers")
    assert text.endswith(f"{END}\n\n# After\n")
    assert "\nold\n" not in text
    assert "chemspec " in text
    assert papers.NO_TRUTH in text
    for name in ("forward-times", "retro-times", "learned-times", "latency", "speedups-time", "speedups-passes"):
        assert f"(charts/{name}.svg)" in text
        ElementTree.fromstring((tmp_path / "charts" / f"{name}.svg").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "charts" / "papers.json").read_text(encoding="utf-8")) == report
    assert {row["n"] for row in report["learned"]} == {1, 5}
    assert [row["n"] for row in report["retro"]] == [1, 1, *(n for n in (2, 3) for _ in range(5))]


def test_rows_are_complete_and_exact_ones_change_nothing(tmp_path: Path) -> None:
    suite = PapersSettings(source=sets_in(tmp_path), **{**SMALL, "seconds": 60.0})  # type: ignore[arg-type]
    seen: list[tuple[int, int]] = []
    report = papers.run(suite, progress=lambda *done: seen.append(done), meter=None)
    assert seen[-1][0] == seen[-1][1] == len(seen) == 9 + 6 + 10 + 7 + 26
    assert "Energy is not reported by this machine." in report["notes"]
    names = [row["name"] for row in report["forward"]]
    assert names == [
        "standard, B=1",
        "windows DL=4, B=1",
        "windows DL=10, B=1",
        "copy, B=1",
        "attention, B=1",
        "mixed, B=1",
        "auto, B=1",
        "standard, B=32",
        "auto, B=32",
    ]
    for row in [*report["forward"], *report["retro"], *report["curve"], *report["learned"]]:
        assert row["queries"] == 3
        assert row["q1_ms"] <= row["median_ms"] <= row["q3_ms"]
        assert row["peak_mb"] > 50
        assert row["joules_per_query"] is None
        standard = row["drafter"] == "none" and row["exact"]
        assert (row["speedup"] is None) == standard
        if row["decoder"] == "speculative-sample":
            assert row["same_list"] is None
        elif row["exact"] and not standard:
            assert row["same_list"] == 1.0
    sbs = [row for row in report["retro"] if not row["exact"]]
    assert [(row["decoder"], row["drafter"]) for row in sbs] == [("sbs", "windows"), ("sbs", "none")]
    for row in report["accuracy"]:
        assert row["queries"] == 3
        if row["standard"] is not None and "SBS" not in row["name"]:
            assert row["top"] == row["standard"]
    assert set(report["speedups"]) >= {"forward, auto, B=1", "retro, greedy, auto"}
    learned = {row["name"]: row for row in report["learned"]}
    assert {f"retro, greedy B=1, {name}" for name in ("ar", "hierarchy", "spec_drafter", "spec_drafter k=5")} <= set(
        learned
    )
    assert not any(name.startswith("forward") and "spec_drafter" in name for name in learned)
    small, both = (learned[f"retro, greedy B=1, {name}"]["weights_mb"] for name in ("ar", "hierarchy"))
    assert both == 2 * small > 0 == learned["retro, greedy B=1, mixed"]["weights_mb"]
    assert "equal" in papers.section(report, "c", dict.fromkeys(charts(report), "words"))


def made(name: str, seconds: list[float], answers: list[str], *, passes: int = 4) -> Row:
    trace = Trace((), {}, tuple(Pass(1, 1, 0, 1, 0, 1.0, 1, 0.0, 0.0) for _ in range(passes)))
    results = tuple(
        DecodeResult(f"q{place}", "ok", "", (Hypothesis(text, text, True, tuple(text), (-1.0,), -1.0, 0.4),), trace)
        for place, text in enumerate(answers)
    )
    setting = Setting(name, DecodeSettings(decoder="greedy", n=1, batch_size=1), "standard")
    return Row.of(setting, results, seconds=tuple(seconds), sizes=(1,) * len(seconds), peak_mb=100.0)


def test_a_row_that_was_cut_short_is_compared_on_its_own_queries() -> None:
    """The standard's slow queries, which the other did not get to, do not count."""
    standard = made("standard", [1.0, 1.0, 9.0, 9.0, 9.0], ["C", "N", "O", "O", "O"])
    slow = replace(made("slow", [2.0, 2.0], ["C", "O"], passes=2), baseline=standard)
    row = papers._facts(slow)
    assert (row["speedup"], row["same_list"], row["queries"]) == (0.5, 0.5, 2)
    assert papers._speedups(slow) == [(0.5, 2.0), (0.5, 2.0)]
    truth = {f"q{place}": "C" if place < 2 else "O" for place in range(5)}
    scored = papers._accuracy("forward", slow, truth)
    assert (scored["queries"], scored["top"]["1"], scored["standard"]["1"]) == (2, 50.0, 50.0)


def test_energy_is_that_of_the_row(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "intel-rapl:0"
    folder.mkdir()
    (folder / "max_energy_range_uj").write_text("1000")
    (folder / "energy_uj").write_text("5")
    report = papers.run(PapersSettings(**SMALL), meter=Meter.find(tmp_path))  # type: ignore[arg-type]
    assert {row["joules_per_query"] for row in report["forward"]} == {0.0}
    assert not any("Energy" in note for note in report["notes"])


def test_a_page_without_marks_gets_them_and_half_marked_ones_are_refused(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    assert papers._put("# Page\n", "new", page) == f"# Page\n\n{BEGIN}\nnew\n{END}\n"
    once = papers._put("", "new", page)
    assert papers._put(once, "new", page) == once
    with pytest.raises(ValueError, match=f"{END}"):
        papers._put(f"{BEGIN}\nopen", "new", page)


def test_the_widths_of_the_papers_and_50_are_measured() -> None:
    assert PapersSettings().widths == (5, 10, 25, 50)
    retro = papers.settings_by_table(PapersSettings(), "retro", ())["retro"]
    table = {setting.name: setting.paper for setting in retro}
    assert table["n=10, SBS DL=10"] == pytest.approx(39.9 / 15.4)
    assert table["n=50, SBS DL=10"] is None


@pytest.mark.parametrize("options", [{"limit": 0}, {"seconds": 0.0}, {"widths": (0,)}, {"batches": (0,)}])
def test_a_suite_that_cannot_be_carried_out_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        PapersSettings(**options)
