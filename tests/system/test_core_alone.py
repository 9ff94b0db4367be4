"""The core alone, installed into a virtual environment of its own, predicts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

from chemspec.system.extras import EXTRAS


# Slow: pip installs torch and RDKit anew, a minute and 700 MB. What it can find without that is in test_extras.py.
@pytest.mark.slow
@pytest.mark.nightly
def test_the_core_alone_predicts_a_query_and_a_file(tmp_path: Path) -> None:
    environment = {**os.environ, "CHEMSPEC_NO_FRONTEND": "1", "CHEMSPEC_CACHE": str(tmp_path)}
    environment.pop("PYTHONPATH", None)

    def run(*words: str | Path) -> str:
        done = subprocess.run(list(map(str, words)), cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", "own")
    own = tmp_path / "own" / "bin"
    # One small package, asked anew: without an index there is nothing to install, which is no fault of the core.
    probe = [own / "pip", "download", "-q", "--no-deps", "--no-cache-dir", "--retries", "1", "-d", "probe", "hatchling"]
    if subprocess.run(probe, cwd=tmp_path, env=environment, capture_output=True, check=False).returncode:
        pytest.skip("pip reaches no package index here")
    run(own / "pip", "install", "-q", "--no-compile", "-c", ROOT / "constraints.txt", ROOT)
    find = f"from importlib.util import find_spec; print([n for n in {list(EXTRAS)} if find_spec(n)])"
    assert run(own / "python", "-c", find).strip() == "[]"

    answer = run(own / "chemspec", "predict", "CC(=O)Cl.Nc1ccccc1", "--task", "forward", "-n", "1")
    assert "CC(=O)Nc1ccccc1" in answer
    (tmp_path / "queries.csv").write_text("smiles\nO=C(NCc1ccccc1)c1ccccc1\n")
    run(own / "chemspec", "predict", "queries.csv", "--task", "retro", "-n", "3", "-o", "out.csv")
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert len(rows) == 2 and ",ok," in rows[1]
