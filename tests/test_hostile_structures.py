"""Graphs that RDKit does not survive, at every door: refused or answered, in a second and 500 MB, the process alive."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from helpers.paths import TESTS
from helpers.slowness import slowness
from programs.fuzzing import doors

SECONDS, MAX_KB = 1.0, 500_000


FURTHER = [door for door in doors.DOORS if door not in doors.QUICK]
MANY = [door for door in FURTHER if door not in doors.SMILES_ONLY]  # a seventh of them meets some of every format


@pytest.mark.parametrize(
    ("group", "step"),
    [
        pytest.param((*doors.QUICK,), 1, marks=pytest.mark.smoke),  # one process, every structure in every format
        *(pytest.param((door,), 7 if door in MANY else 1, marks=pytest.mark.slow) for door in FURTHER),
        *(pytest.param((door,), 1, marks=[pytest.mark.slow, pytest.mark.nightly]) for door in MANY),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)  # the slow ones start a process for each structure, load models and open pages
def test_no_structure_ends_or_holds_up_a_process(group: tuple[str, ...], step: int) -> None:
    seconds = SECONDS * slowness()
    command = [sys.executable, "-W", "ignore", "-m", doors.__name__, str(seconds), str(step), *group]
    child = subprocess.run(command, cwd=TESTS, capture_output=True, text=True)
    assert child.returncode == 0, f"{child.stdout[-200:]} then {child.returncode}: {child.stderr[-2000:]}"
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    assert len(lines) == sum(len(doors.cases_of(door, step)) for door in group)
    assert [line for line in lines if line["seconds"] > seconds or line["kb"] > MAX_KB] == []
