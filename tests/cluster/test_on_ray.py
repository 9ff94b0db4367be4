"""On a real Ray of several nodes: nodes, engines and drivers that are killed cost no row and double none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.small import BAD, QUERIES
from pyarrow import parquet

from chemspec.cluster import engines as on_ray
from chemspec.cluster.job import predict_file
from chemspec.engine.engine import Engine
from chemspec.io import writers
from chemspec.io.readers import FileError
from chemspec.settings import DecodeSettings
from chemspec.system import extras

pytestmark = pytest.mark.skipif(not extras.is_installed("ray"), reason="the extra ray is not installed")
HOW = DecodeSettings(n=2, drafter="copy", max_len=20)
ROWS = [query for number in range(40) for query in [*QUERIES, "C" * (number + 1), list(BAD)[number % len(BAD)].strip()]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "in.smi"
    file.write_text("\n".join(ROWS), "utf-8")
    return file


def written(out: Path) -> list[dict[str, Any]]:
    """All rows, each once and in its place."""
    rows = [row for file in sorted(out.rglob("*.parquet")) for row in parquet.read_table(file).to_pylist()]
    assert [row["row"] for row in rows] == list(range(len(ROWS)))
    return rows


def same_as_alone(out: Path, tiny_retro: Path) -> None:
    """Every row once, in its place, with the answer of an engine that answers alone."""
    alone = Engine.load(tiny_retro, device="cpu", threads=1).predict(ROWS, HOW)
    for row, own in zip(written(out), map(writers.result_document, alone), strict=True):
        assert [row[name] for name in ("query", "status", "message")] == [own["query"], own["status"], own["message"]]
        ours, theirs = row["hypotheses"], own["hypotheses"]
        assert [answer["smiles"] for answer in ours] == [answer["smiles"] for answer in theirs]
        log_probs = [answer["log_prob"] for answer in theirs]
        assert [answer["log_prob"] for answer in ours] == pytest.approx(log_probs, abs=1e-5)


def test_a_node_that_dies_costs_no_row(
    nodes: Any, source: Path, tiny_retro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two nodes is killed while it answers a shard, which the other one then answers."""
    notes: list[str] = []
    victims = [next(iter(nodes.worker_nodes))]
    monkeypatch.setattr(on_ray, "predict_piece", never_done(victims[0].node_id, tmp_path / "asked"))

    def kill(done: int, _: int | None) -> None:
        if done and victims:
            nodes.remove_node(victims.pop(), allow_graceful=False)

    out = tmp_path / "out"
    report = predict_file(
        source,
        out,
        HOW,
        tiny_retro,
        address=nodes.address,
        shard_rows=20,
        device="cpu",
        progress=kill,
        note=notes.append,
    )
    nodes.add_node(num_cpus=1, object_store_memory=80_000_000)
    assert not victims
    assert report.shards == 18
    assert report.deaths == len(notes) >= 1
    assert sum(report.counts.values()) == len(ROWS)
    same_as_alone(out, tiny_retro)


def never_done(node: str, asked: Path) -> Callable[..., Any]:
    """An engine that on one node never ends what it is asked, and on the others begins when that has been asked.

    However soon a machine answers the rest, the death of that node costs a shard.
    """
    honest = on_ray.predict_piece

    def predict_piece(*given: Any) -> Any:
        import ray

        if ray.get_runtime_context().get_node_id() == node:
            asked.touch()
            time.sleep(600)
        ends = time.monotonic() + 100
        while not asked.exists():
            assert time.monotonic() < ends, "the other node has no engine"
            time.sleep(0.02)
        return honest(*given)

    return predict_piece


def test_ray_s_own_messages_of_deaths_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    from ray._private import worker

    said = {"lines": ["A worker died or was killed"], "pid": "raylet", "ip": "127.0.0.1", "is_err": False}
    worker.print_to_stdstream(said, ignore_prefix=False)
    assert "A worker died" in capsys.readouterr().out, "if not, Ray prints it by another function"
    with on_ray.without_messages_of_ray():
        worker.print_to_stdstream({**said, "lines": ["Another one"]}, ignore_prefix=False)
    assert not capsys.readouterr().out


def test_a_driver_that_is_killed_goes_on(nodes: Any, source: Path, tiny_retro: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [
        "predict",
        str(source),
        "--model",
        str(tiny_retro),
        "--ray",
        nodes.address,
        "-o",
        str(out),
        "--device",
        "cpu",
    ]
    words += ["-n", "2", "--no-distinct", "--drafter", "copy", "--max-len", "20", "--shard-rows", "1"]
    driver = subprocess.Popen([sys.executable, "-m", "chemspec.cli", *words], stderr=subprocess.PIPE, text=True)
    try:
        while not list(out.glob("rows/*/*.parquet")):
            assert driver.poll() is None, driver.stderr.read() if driver.stderr else ""
            time.sleep(0.02)
        os.kill(driver.pid, signal.SIGKILL)
    finally:
        driver.kill()
        driver.communicate()
    report = predict_file(source, out, HOW, tiny_retro, address=nodes.address, shard_rows=1, device="cpu")
    assert 1 <= report.resumed < report.shards == 360
    same_as_alone(out, tiny_retro)
    with pytest.raises(FileError, match="n 2 instead of 3"):
        predict_file(
            source,
            out,
            DecodeSettings(n=3, drafter="copy", max_len=20),
            tiny_retro,
            address=nodes.address,
            shard_rows=1,
        )


@pytest.mark.nightly  # five engines and more start
def test_a_row_that_kills_its_engine_is_given_up_alone(
    nodes: Any, source: Path, tiny_retro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that only fails, which costs no engine."""
    out = tmp_path / "out"
    monkeypatch.setattr(on_ray, "predict_piece", deadly())
    report = predict_file(source, out, HOW, tiny_retro, address=nodes.address, shard_rows=4, device="cpu", most=2)
    failed = {row["query"]: row["message"] for row in written(out) if row["status"] == "failed"}
    assert failed == {"C" * 7: "3 engines died on this row", "C" * 9: "the model failed on this row (KeyError)"}
    assert report.counts["failed"] == 2
    assert 5 <= report.deaths <= 9


def deadly() -> Callable[..., Any]:
    """Made here, so that it travels as it is: nodes know nothing of the tests."""

    class Touchy:
        def __init__(self, engine: Any) -> None:
            self._engine = engine

        def __getattr__(self, name: str) -> Any:
            return getattr(self._engine, name)

        def predict(self, queries: Any, settings: Any, **how: Any) -> Any:
            import os

            if "C" * 7 in queries:
                os._exit(1)
            if "C" * 9 in queries:
                raise KeyError("nine")
            return self._engine.predict(queries, settings, **how)

    def predict_piece(model: str, options: Any, *given: Any) -> Any:
        engine = Touchy(Engine.load(model, **dict(options)))
        on_ray.load_engine = lambda *_: engine  # type: ignore[assignment]
        return on_ray.predict_piece(model, options, *given)

    return predict_piece


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"model": "nothing-of-that-name"}, "no model"),
        ({"task": "forward"}, "is a retro model"),
        ({"device": "cuda:1"}, "every engine gets its own"),
    ],
)
def test_what_no_engine_can_do_is_said(
    nodes: Any, source: Path, tiny_retro: Path, tmp_path: Path, options: dict[str, Any], part: str
) -> None:
    options = {"model": tiny_retro, "device": "cpu", **options}
    with pytest.raises(ValueError, match=part):
        predict_file(source, tmp_path / "out", HOW, address=nodes.address, **options)
    assert not (tmp_path / "out").exists()
