"""The half hour on a lent GPU, in small: packing, known answers, steps that fail or run out of time, the rehearsal."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from paths import ROOT

from chemspec.bench.gpu import answers, packing, steps
from chemspec.bench.gpu.answers import KnownAnswers, TokenModel, verdict
from chemspec.bench.gpu.steps import Scale, Steps
from chemspec.data.arrays import Pairs, RaggedArray
from chemspec.types import FinishedSequence

sides = st.lists(st.lists(st.integers(4, 600), max_size=6), min_size=1, max_size=8)


@given(sides, st.data())
def test_packed_reactions_come_back_to_the_last_token(sources: list[list[int]], data: st.DataObject) -> None:
    import tempfile

    targets = [data.draw(st.lists(st.integers(4, 600), max_size=5)) for _ in sources]
    with tempfile.TemporaryDirectory() as made:
        folder, file = Path(made), Path(made) / "packed" / "some.xz"
        pairs = Pairs(RaggedArray.pack(sources), RaggedArray.pack(targets))
        pairs.save(folder / "train.npz")
        (folder / "vocab.json").write_text('["C", "\\u00e9"]')
        packing.pack(folder, file)
        packing.unpack(file, folder / "back")
        found = Pairs.load(folder / "back" / "train.npz")
        assert (folder / "back" / "vocab.json").read_text() == '["C", "\\u00e9"]'
    for ours, theirs in ((found.sources, pairs.sources), (found.targets, pairs.targets)):
        np.testing.assert_array_equal(ours.flat, theirs.flat)
        np.testing.assert_array_equal(ours.offsets, theirs.offsets)


@given(arrays.arrays(np.uint16, 480, elements=st.integers(4, 999), unique=True))
def test_rare_tokens_take_two_bytes(ids: Any) -> None:
    rank = np.zeros(1000, dtype=np.int64)
    rank[ids] = np.arange(len(ids))
    pairs = Pairs(RaggedArray.pack([ids.tolist()]), RaggedArray.pack([ids[::-1].tolist()]))
    raw = packing._encode(pairs, rank)
    assert len(raw) == 2 * (250 + 2 * 230) + 2
    np.testing.assert_array_equal(packing._decode(raw, ids).targets.flat, ids[::-1])


def test_what_cannot_be_packed_or_read_is_said(tmp_path: Path) -> None:
    pairs = Pairs(RaggedArray.pack([range(4, 600)]), RaggedArray.pack([[4]]))
    pairs.save(tmp_path / "train.npz")
    (tmp_path / "vocab.json").write_text("[]")
    with pytest.raises(ValueError, match="596 different tokens"):
        packing.pack(tmp_path, tmp_path / "x.xz")
    (tmp_path / "x.xz").write_bytes(b"junk")
    with pytest.raises(ValueError, match="no packed reactions"):
        packing.unpack(tmp_path / "x.xz", tmp_path / "out")


@pytest.mark.parametrize(
    ("case", "found", "margin", "expected"),
    [
        ("greedy", [((5, 2), (-0.5, -0.5))], 1.0, "same"),
        ("greedy", [((5, 2), (-0.5, -0.9))], 1.0, "WRONG"),
        ("greedy", [((6, 2), (-0.5, -0.5))], 1e-5, "tie"),
        ("greedy", [((6, 2), (-0.5, -0.5))], 1e-3, "WRONG"),
        ("beam10", [((5, 2), (-0.5, -0.5))], 0.0, "same"),
        ("beam10", [((6, 2), (-0.5, -0.50001))], 0.0, "tie"),
        ("beam10", [((6, 2), (-0.5, -0.6))], 0.0, "differs"),
    ],
)
def test_verdicts(case: str, found: Any, margin: float, expected: str) -> None:
    given = [FinishedSequence(tokens, log_probs, "eos") for tokens, log_probs in found]
    assert verdict(case, given, [((5, 2), -1.0)], margin)[0] == expected


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("kit")
    return folder, steps.make_kit(folder)


def test_a_runtime_that_is_right_is_told_from_one_that_is_not(
    kit: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = KnownAnswers.load(kit[0] / "retro.json")
    rows: list[dict[str, Any]] = []
    how: dict[str, Any] = {"device": "cpu", "dtype": "fp32", "cases": ("greedy", "beam10"), "batches": (1, 4)}
    how |= {"limit": 3, "seconds": 9.0, "tell": rows.append}
    model = kit[0] / "models" / "retro"
    assert answers.check(model, known, runtimes=("torch",), drafters=("none", "copy"), **how)
    assert len(rows) == 8
    assert all(set(row["verdicts"]) <= {"same", "tie"} and row["queries"] >= 2 for row in rows)
    assert {row["passes_per_batch"] for row in rows if row["drafter"] == "none" and row["batch"] == 1}
    # One that is wrong, one that is not there, and a case that breaks: all are told, and none ends the rest.
    wrong = KnownAnswers(known.ids, {"greedy": [[((5, 2), -1.0)]] * 3, "beam10": []})
    rows.clear()
    assert not answers.check(model, wrong, runtimes=("graphs", "torch"), drafters=("none",), **how)
    assert ["error" in row for row in rows] == [True, False, True, False, True]
    assert rows[1]["verdicts"] == {"WRONG": 3}
    # Rows must be JSON.
    assert json.loads(json.dumps(rows)) == rows


def test_passes_are_timed_by_shape(kit: tuple[Path, dict[str, str]]) -> None:
    model = TokenModel(kit[0] / "models" / "forward", device="cpu", dtype="fp32", runtime="torch")
    rows = list(answers.time_passes(model, ((1, 1), (3, 2)), turns=3))
    assert [(row["queries"], row["nodes"]) for row in rows] == [(1, 1), (3, 2)]
    assert all(0 < row["least_ms"] <= row["ms"] and row["open_ms"] > 0 for row in rows)


def test_a_kit_holds_a_models_own_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from small import tiny_folder
    from typer.testing import CliRunner

    from chemspec.cli import app

    monkeypatch.chdir(tmp_path)
    model = tiny_folder(tmp_path / "m", max_positions=40)
    (model / "drafters").mkdir()
    with gzip.open("retro_test.csv.gz", "wt") as table:
        table.write("product,reactants,reaction_class\nCCO,CCBr.O,1\nCC(=O)NC,CC(=O)O.CN,2\nCCN,CCBr.N,1\n")
    words = ("dev", "gpu", "kit", "-t", "retro", "-m", str(model), "--source", ".", "--greedy", "3", "--beams", "1")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    known = KnownAnswers.load(tmp_path / ".gpu" / "retro.json")
    assert len(known.ids) == 3 and [len(known.answers[case]) for case in ("greedy", "beam10")] == [3, 1]
    assert len(known.answers["beam10"][0]) == 10
    copied = tmp_path / ".gpu" / "models" / "retro"
    assert (copied / "model.safetensors").is_file() and not (copied / "drafters").exists()
    rows: list[dict[str, Any]] = []
    how: dict[str, Any] = {"device": "cpu", "dtype": "fp32", "cases": ("greedy",), "batches": (1,), "limit": 3}
    assert answers.check(copied, known, runtimes=("torch",), drafters=("none",), seconds=9, tell=rows.append, **how)


def test_no_known_answers_are_said(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"ids": []}')
    with pytest.raises(ValueError, match="no known answers"):
        KnownAnswers.load(tmp_path / "x.json")


def test_a_step_that_fails_or_takes_too_long_harms_none_after_it(tmp_path: Path) -> None:
    run = Steps(tmp_path / "kit", tmp_path / "out", tmp_path / "keep", {"WORD": "hello"}, patience=0.5)
    python = sys.executable
    assert not run.step("fails", 60, python, "-c", "import sys; print('so it goes'); sys.exit(3)")
    assert not run.step("hangs", 0.5, python, "-c", "import time; time.sleep(60)")
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    assert not run.step("ignores", 1.0, python, "-c", stubborn)
    assert not run.step("missing", 60, tmp_path / "no such program")
    assert run.step("works", 60, python, "-c", "import os; print(os.environ['WORD'], os.environ['CHEMSPEC_CACHE'])")
    results = run.finish()
    assert [one.status for one in results] == [3, 124, 124, 127, 0]
    assert results[1].seconds < 30 and results[2].seconds < 30
    log = (tmp_path / "out" / "log.txt").read_text()
    assert "so it goes" in log and f"hello {tmp_path / 'keep' / 'cache'}" in log and "status 124" in log
    assert [one["name"] for one in json.loads((tmp_path / "out" / "steps.json").read_text())][:2] == ["fails", "hangs"]


def test_weights_come_back_in_parts_and_a_run_without_them_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Steps(tmp_path / "kit", tmp_path / "out", tmp_path / "keep")
    folder = tmp_path / "run"
    (folder / "model").mkdir(parents=True)
    steps._bring_back(run, folder, "retro")
    assert not list((tmp_path / "out").glob("retro*"))
    assert "no model in" in (tmp_path / "out" / "log.txt").read_text()
    content = os.urandom(2500)
    (folder / "model" / "model.safetensors").write_bytes(content)
    (folder / "model" / "vocab.json").write_text("[]")
    monkeypatch.setattr(steps, "PART", 1000)
    steps._bring_back(run, folder, "retro")
    parts = sorted((tmp_path / "out").glob("retro.safetensors.*"))
    assert [part.stat().st_size for part in parts] == [1000, 1000, 500]
    assert b"".join(part.read_bytes() for part in parts) == content
    assert hashlib.sha256(content).hexdigest() in (tmp_path / "out" / "log.txt").read_text()
    with tarfile.open(tmp_path / "out" / "retro.tgz") as archive:
        assert set(archive.getnames()) == {"model", "model/vocab.json"}


def test_the_steps_ask_for_commands_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of the full half hour, with its options, is understood; and limits fit into what a command has."""
    from typer.testing import CliRunner

    from chemspec.cli import app

    asked: list[tuple[str, float, tuple[str, ...]]] = []

    def take_down(self: Steps, name: str, limit: float, *command: Any) -> bool:
        asked.append((name, limit, tuple(map(str, command))))
        return True

    monkeypatch.setattr(Steps, "step", take_down)
    limits = {}
    for name, most in (("prove", 480), ("forward", 600), ("retro", 600), ("measure", 320)):
        asked.clear()
        run = Steps(tmp_path / "kit", tmp_path / "out", tmp_path / "keep")
        if name in ("prove", "measure"):
            getattr(steps, name)(run)
        else:
            steps.train(run, "forward" if name == "forward" else "retro")
        limits[name] = sum(limit for step, limit, _ in asked)
        assert limits[name] <= 1.3 * most, asked
        for _, _, words in asked:
            if words[: len(steps.PROGRAM)] == steps.PROGRAM:
                own = [*words[len(steps.PROGRAM) :], "--help"]
                done = CliRunner().invoke(app, own)
                assert done.exit_code == 0 and "No such option" not in done.output, own
    assert Scale().fast == "graphs,triton"


@pytest.mark.nightly
@pytest.mark.slow  # trains three times, each in a process that imports Lightning
def test_the_rehearsal_runs_where_there_is_no_rdkit(tmp_path: Path) -> None:
    if find_spec("lightning") is None:
        pytest.skip("Lightning is not installed here")
    command = [sys.executable, "-m", "chemspec.cli", "dev", "gpu", "rehearse", "--folder", tmp_path, "--slow", "4"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out" / "prove" / "results.jsonl").read_text().splitlines()]
    assert all(set(row["verdicts"]) <= {"same", "tie"} for row in rows if "verdicts" in row)
    for task in steps.TASKS:
        assert (tmp_path / "out" / task / f"{task}.safetensors.00").is_file()


def test_nothing_of_it_needs_rdkit_streamlit_or_pandas() -> None:
    code = f"import sys\nfor name in {steps.ABSENT!r}: sys.modules[name] = None\n"
    code += "import chemspec.bench.gpu.answers, chemspec.bench.gpu.steps, chemspec.bench.gpu.packing, chemspec.cli\n"
    code += (
        "import chemspec.engine.drafter_resources, chemspec.decode.registry, chemspec.testing, chemspec.model.cost\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed here")
def test_estimates_stand_beside_a_column_for_what_is_measured() -> None:
    from chemspec.bench.gpu.estimate import HEAD, table

    measured = [
        {"runtime": "triton", "dtype": dtype, "queries": 1, "nodes": 1, "ms": ms}
        for dtype, ms in (("fp32", 0.123), ("int8", 0.456))
    ]
    measured += [{**measured[0], "runtime": "graphs", "nodes": 4}, {"runtime": "triton", "error": "x", "queries": 1}]
    for dtype, launches, ms in (("fp32", "40", "0.12"), ("int8", "36", "0.46")):
        head, _, *rows = table("mt-4x4", 279, measured, dtype=dtype).splitlines()
        assert head == HEAD and len(rows) == len(answers.SHAPES)
        cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
        assert cells[0][:2] == ["1 x 1", launches] and cells[0][5] == ms
        assert not any(row[5] for row in cells[1:])
        estimated = [float(row[4]) for row in cells]
        assert 0.05 < estimated[0] < estimated[-1] < 10
