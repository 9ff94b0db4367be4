"""A search with the same settings expands the same molecules in the same order in each process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("syntheseus")

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.toy import Toy, stock

from chemspec.plan.expand import Expander
from chemspec.plan.search import plan
from chemspec.plan.settings import PlanSettings

# Alkanes from two shorter ones, all equally probable: what comes first among equals decides what is reached.
ALKANES = {"C" * n: [(f"{'C' * k}.{'C' * (n - k)}", 0.2) for k in range(n // 2 - 5, n // 2)] for n in range(12, 33)}
SEEDS = ("1", "2")  # of the hashes of texts; this process has another


def searched() -> list[object]:
    """Return the expanded molecules in their order, and the routes."""
    model = Toy(ALKANES)
    with tempfile.TemporaryDirectory() as folder:
        bought = stock(Path(folder), ["C" * n for n in range(1, 10)])
        found = plan("C" * 32, Expander(model, keep=False), bought, PlanSettings(expansions=9, routes=5))
    return [model.asked, [sorted(route.signature) for route in found.routes]]


def test_the_same_search_in_each_process() -> None:
    here = json.loads(json.dumps(searched()))
    assert len(here[0]) == 9
    for seed in SEEDS:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, "-W", "ignore", __file__], env=environment, capture_output=True)
        assert run.returncode == 0, run.stderr.decode()
        assert json.loads(run.stdout) == here


if __name__ == "__main__":
    sys.stdout.write(json.dumps(searched()))
