"""What `predict --ray` cannot do is refused before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import refusal

from chemspec.cluster import engines
from chemspec.system import extras


@pytest.mark.skipif(not extras.is_installed("ray"), reason="the extra ray is not installed")
@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["in.smi", "--ray", "local"], "give one with --out"),
        (["in.smi", "--ray", "local", "-o", "out.csv"], "a folder of Parquet files"),
        (["CCO", "--ray", "local", "-o", "out"], "give its path"),
        (["in.smi", "in.smi", "--ray", "local", "-o", "out"], "give its path"),
        (["in.smi", "--ray", "local", "-o", "out", "--review"], "do not go with --ray"),
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
    monkeypatch.setattr(engines, "connect_cluster", started)
    Path("in.smi").write_text("CCO\n")
    Path("in.csv").write_text("smiles\nCCO\n")
    Path("empty.smi").touch()
    assert part in refusal("predict", *words, "--task", "retro")
    assert not Path("out").exists()
