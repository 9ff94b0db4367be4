"""Plans on a real Ray: those of one process, and a target whose process dies costs the others nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chemspec.cluster.plans import plan_on_ray
from chemspec.plan.routes import Evidence, Plan
from chemspec.plan.workers import Planner
from chemspec.system import extras

pytestmark = pytest.mark.skipif(
    not all(map(extras.is_installed, ("ray", "syntheseus", "apted"))), reason="an extra is not installed"
)


@pytest.mark.nightly  # a Ray of its own, and the shipped models three times
def test_the_command_plans_as_without_a_cluster(tmp_path: Path) -> None:
    tables = []
    for name, words in {"alone": (), "ray": ("--ray", "local")}.items():
        file = tmp_path / f"{name}.csv"
        command = [sys.executable, "-m", "chemspec.cli", "plan", "CC(=O)Nc1ccc(O)cc1", "CCOC(=O)c1ccccc1", "CC("]
        command += ["--expansions", "2", "-o", str(file), *words]
        subprocess.run(command, env=os.environ | {"CHEMSPEC_CACHE": str(tmp_path / name)}, check=False, timeout=120)
        tables.append(file.read_text(encoding="utf-8"))
    assert tables[0] == tables[1] and tables[0].count("\n") == 4


def test_a_target_that_kills_its_process_fails_and_the_others_are_planned_in_order(nodes: Any) -> None:
    def load(greeting: str) -> Planner:
        def plan(target: str) -> tuple[Plan, Evidence]:
            if target == "deadly":
                os._exit(1)
            return Plan(target, "open", greeting), {}

        return plan

    plans = [plan for plan, _ in plan_on_ray(["a", "deadly", *"bcdef"], partial(load, "hello"), nodes.address)]
    assert [plan.target for plan in plans] == ["a", "deadly", *"bcdef"]
    assert [plan.message for plan in plans if plan.status == "open"] == ["hello"] * 6
    assert plans[1].status == "failed" and "crashed" in plans[1].message


def test_what_cannot_be_loaded_is_told(nodes: Any) -> None:
    def load() -> Planner:
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        list(plan_on_ray(["a"], partial(load), nodes.address))
