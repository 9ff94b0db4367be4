"""What `predict --ray` cannot do is refused before anything is started; `dev plan-job` says what a job takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chemspec.cli import app
from chemspec.cluster import engines
from chemspec.system import extras


@pytest.mark.skipif(not extras.installed("ray"), reason="the extra ray is not installed")
@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["in.smi", "--ray", "local"], "give one with --out"),
        (["in.smi", "--ray", "local", "-o", "out.csv"], "a folder of Parquet files"),
        (["CCO", "--ray", "local", "-o", "out"], "give its path"),
        (["in.smi", "in.smi", "--ray", "local", "-o", "out"], "give its path"),
        (["in.smi", "--ray", "local", "-o", "out", "--trace", "t"], "do not go with --ray"),
        (["in.smi", "--ray", "local", "-o", "out", "--shard-rows", "0"], "a shard of 0 rows"),
        (["empty.smi", "--ray", "local", "-o", "out"], "there is no query in empty.smi"),
        (["in.csv", "--ray", "local", "-o", "out", "--column", "x"], "no column 'x'"),
        (["in.smi", "--engines", "2"], "go with --ray"),
    ],
)
def test_what_does_not_go_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], part: str
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("a cluster was started")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engines, "cluster", started)
    Path("in.smi").write_text("CCO\n")
    Path("in.csv").write_text("smiles\nCCO\n")
    Path("empty.smi").touch()
    done = CliRunner().invoke(app, ["predict", *words, "--task", "retro"])
    assert done.exit_code == 2
    assert part in " ".join(done.stderr.split())
    assert not Path("out").exists()


def test_a_plan_is_told_and_repeats_itself() -> None:
    words = ["dev", "plan-job", "--rows", "1000000", "--machines", "2", "--hours-between-failures", "0.2"]
    first, second = (CliRunner().invoke(app, [*words, "--json"]).stdout for _ in range(2))
    assert first == second
    found = json.loads(first)["forecast"]
    assert found["shards"] == 100
    assert found["cost"] == pytest.approx(found["engine_hours"] * 0.04)
    told = CliRunner().invoke(app, words).stdout
    assert f"{found['failures']} machines fail" in told
