"""Counting how drafters with a model fare."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from helpers.command_line import call, last
from helpers.small import QUERIES, tiny_folder

from chemspec import asset_files
from chemspec.bench import counts
from chemspec.bench.settings import ComparisonSettings
from chemspec.engine.engine import Engine, usable_drafters
from chemspec.plugins import DRAFTERS
from chemspec.settings import DecodeSettings
from chemspec.ui.common import queued_engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with itself as its small model, and without a medium one."""
    home = tiny_folder(tmp_path_factory.mktemp("models") / "retro")
    tiny_folder(home / "drafters" / "ar")
    return home


def test_passes_and_runs_of_the_small_model_are_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.load(folder, device="cpu", threads=1, runtime="torch", dtype="fp64")
    settings = DecodeSettings(decoder="greedy", n=1, max_len=20, batch_size=1)
    monkeypatch.setattr(counts, "load_comparison", lambda given, _: (engine, QUERIES[: given.limit], given.drafters))
    both = ComparisonSettings(limit=4, drafters=("copy", "ar"))
    copied, two, four = counts.compare_draft_lengths(both, settings, (2, 4))
    assert (copied["gamma"], two["gamma"], four["gamma"]) == ("", "2", "4")
    assert copied["draft_calls"] == 0
    assert [row["same"] for row in (copied, two, four)] == [1, 1, 1]
    for row, length in ((two, 2), (four, 4)):
        # It drafts for itself: all is accepted, but for the ends.
        assert row["alpha"] == 1
        assert length * 0.7 < row["calls_per_pass"] <= length + 1
        assert length < row["tokens_per_pass"] <= length + 1
    sbs = replace(settings, decoder="sbs", n=2)  # which calls the drafter itself
    (drafted,) = counts.compare_draft_lengths(ComparisonSettings(limit=1, drafters=("ar",)), sbs, (2,))
    assert drafted["calls_per_pass"] >= 1


def test_a_model_is_offered_the_drafters_that_it_can_use(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(folder.parent))
    lacking = {"medium", "hierarchy", "spec_drafter", "blockwise", "medusa"}
    assert set(DRAFTERS) - set(usable_drafters(folder)) == lacking
    assert queued_engine.usable_drafters("retro") == usable_drafters(folder)
    alone = tiny_folder(tmp_path / "alone")
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path))
    assert not {"ar", *lacking} & set(usable_drafters(alone))
    assert queued_engine.usable_drafters("alone") == usable_drafters(alone)


def test_drafters_are_counted_on_the_built_in_queries_with_the_model_that_has_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a folder of data."""
    home = folder.parent
    tiny_folder(home / "forward", task="forward")
    if not (home / "retro").exists():
        shutil.copytree(folder, home / "retro")
    monkeypatch.setenv("CHEMSPEC_MODELS", str(home))
    monkeypatch.delenv("CHEMSPEC_DATA", raising=False)
    monkeypatch.setattr(asset_files, "bench_queries", lambda _: tuple(QUERIES[:2]))

    def count(*words: str) -> Result:
        done = call("bench", *words, "--threads", 1)
        assert done.exit_code == 0, done.stderr
        return done

    default = count("drafters", "--json")
    assert default.stderr.startswith("model retro, 2 built-in queries")
    rows = {row["drafter"]: row for row in last(default)["rows"]}
    assert next(iter(rows)) == "none" and rows["ar"]["same"] and "medusa" not in rows
    other = count("draft-length", "--task", "forward", "--lengths", "2")
    assert "model forward, 2 built-in queries" in other.stderr
    assert "copy" in other.stdout and " ar " not in other.stdout
    assert {row["n"] for row in last(count("draft-length", "-n", "2", "--drafters", "copy", "--json"))["rows"]} == {2}
    for model in ("forward", str(home / "forward")):  # as it was given
        assert f"model {model}, 2" in count("drafters", "--model", model, "--drafters", "none").stderr
    words = "draft-length", "--lengths", "2", "--decoder", "speculative-sample", "--json"
    assert [(row["drafter"], row["same"]) for row in last(count(*words))["rows"]] == [("ar", None)]
    sweep = "draft-length", "--drafters", "windows,first_windows", "--lengths", "4", "--counts", "1,9", "--json"
    found = last(count(*sweep))["rows"]
    pairs = [(name, drafts) for name in ("windows", "first_windows") for drafts in (1, 9)]
    assert [(row["drafter"], row["drafts"], row["gamma"]) for row in found] == [(*pair, "4") for pair in pairs]
    assert found[0]["nodes_per_pass"] < found[1]["nodes_per_pass"] and {row["same"] for row in found} == {1.0}
    lacking = call("bench", *words, "--task", "forward")
    assert lacking.exit_code == 2 and "needs a small model, which forward lacks" in lacking.stderr
