"""The program for a GPU, on a processor: every section writes its rows, within its time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.small import tiny_folder, two_tiny_folders
from programs import gpu

from chemspec.model import checkpoint
from chemspec.model.runners.cuda_graphs import GraphBackend


@pytest.mark.parametrize("runtime", ["native", "torch"])
def test_every_section_writes_its_results(tmp_path: Path, runtime: str) -> None:
    folder, out = two_tiny_folders(tmp_path) / "retro", tmp_path / "gpu.jsonl"
    given = ["--device", "cpu", "--runtime", runtime, "--model", str(folder), "--minutes", "0.2", "--queries", "3"]
    gpu.run(gpu.parse([*given, "--out", str(out), "--only", *(name for name in gpu.SECTIONS if name != "planning")]))
    rows = list(gpu.read_results(out))
    assert list(dict.fromkeys(row["section"] for row in rows)) == ["load", *list(gpu.SECTIONS)[:-1]]
    assert not [row for row in rows if "failed" in row]
    bits = [row for row in rows if row["section"] == "bits"]
    assert [row["search"] for row in bits] == list(gpu.SEARCHES) and all(row["queries"] for row in bits)
    assert all(row["lists_differ"] == 0 and (runtime == "torch" or row["bits_differ"] == 0) for row in bits)
    single = [row for row in rows if row["section"] == "single"]
    assert [(row["search"], row["drafter"]) for row in single] == [
        (s, d) for s in gpu.SEARCHES for d in ("none", "auto")
    ]
    assert all(row["ms_a_query"] > 0 and row["passes"] > 0 and row["recordings"] == 0 for row in single)
    host = [(row["part"], row["queries"]) for row in rows if row["section"] == "host" and row["least_us"] > 0]
    assert host == [("runner", 1)] * 2 + [("runner", 64)] * 2 + [("loop", 1), ("loop", 64)]
    papers = {(row["search"], row["drafter"]) for row in rows if row["section"] == "papers"}
    assert len(papers) == 4 + 1 + len(gpu.LEARNED) + 3 + 3 + 1 + 1 + 2


def test_with_graphs_nothing_is_recorded_in_the_timed_parts_and_drafts_change_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a device that only pretends to record; recordings in the parts that are timed would make them void."""
    load = gpu.Bench.load

    def with_graphs(bench: gpu.Bench) -> None:
        load(bench)
        model = checkpoint.load(bench.folder).model
        backend = GraphBackend(model, record=lambda function, _: function)
        backend.record_common()
        bench.decoder = replace(bench.decoder, backend=backend)
        bench._count_recordings()

    monkeypatch.setattr(gpu.Bench, "load", with_graphs)
    folder, out = tiny_folder(tmp_path / "retro", max_positions=256), tmp_path / "gpu.jsonl"
    given = ["--device", "cpu", "--runtime", "native", "--model", str(folder), "--minutes", "0.2", "--queries", "5"]
    parts = "passes", "bits", "single", "batches"
    gpu.run(gpu.parse([*given, "--out", str(out), "--only", *parts]))
    rows = list(gpu.read_results(out))
    assert not [row for row in rows if "failed" in row or row.get("recordings")]
    assert {row["section"] for row in rows} == {"load", *parts}
    bits = [row for row in rows if row["section"] == "bits"]
    assert all(row["queries"] and not row["lists_differ"] and not row["bits_differ"] for row in bits)


def test_planning_writes_when_a_route_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("syntheseus")
    monkeypatch.setattr(gpu, "MARKS", (0.1, 0.3))
    folder, out = two_tiny_folders(tmp_path) / "retro", tmp_path / "gpu.jsonl"
    given = ["--device", "cpu", "--runtime", "native", "--model", str(folder), "--queries", "1", "--out", str(out)]
    gpu.run(gpu.parse([*given, "--only", "planning"]))
    _, *rows = gpu.read_results(out)
    assert [(row["target"], row["drafter"]) for row in rows] == [(0, "none"), (0, "auto")]
    assert all(row["within"] == [mark for mark in gpu.MARKS if row["solved"] and row["solved"] <= mark] for row in rows)


def test_a_section_that_fails_does_not_cost_the_next_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(bench: gpu.Bench) -> None:
        raise RuntimeError("the device is lost")

    monkeypatch.setitem(gpu.SECTIONS, "passes", (0.1, fail))
    folder, out = two_tiny_folders(tmp_path) / "retro", tmp_path / "gpu.jsonl"
    given = ["--device", "cpu", "--runtime", "native", "--model", str(folder), "--minutes", "0.1", "--queries", "2"]
    gpu.run(gpu.parse([*given, "--out", str(out), "--only", "passes", "bits"]))
    _, failed, *bits = gpu.read_results(out)
    assert "the device is lost" in failed["failed"] and [row["section"] for row in bits] == ["bits"] * 3


def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    if gpu.torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit, match="--device cpu tries the program"):
        gpu.run(gpu.parse(["--out", str(tmp_path / "x.jsonl")]))
