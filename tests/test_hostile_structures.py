"""Graphs that RDKit does not survive, at every door: refused or answered, in a second and 500 MB, the process alive."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from campaigns.fuzzing import doors
from paths import TESTS
from slowness import slowness

SECONDS, MOST_KB = 1.0, 500_000


@pytest.mark.parametrize(
    "door",
    [
        pytest.param("box", marks=pytest.mark.smoke),  # a process that writes every structure in every format
        *(door for door in doors.QUICK if door != "box"),
        *(pytest.param(door, marks=pytest.mark.slow) for door in doors.DOORS if door not in doors.QUICK),
    ],
)  # the slow ones start a process for each structure, load models and open pages
def test_no_structure_ends_or_holds_up_a_process(door: str) -> None:
    seconds = SECONDS * slowness()
    command = [sys.executable, "-W", "ignore", "-m", doors.__name__, door, str(seconds)]
    child = subprocess.run(command, cwd=TESTS, capture_output=True, text=True)
    assert child.returncode == 0, f"{child.stdout[-200:]} then {child.returncode}: {child.stderr[-2000:]}"
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    assert len(lines) == len(doors.STRUCTURES) * len(doors.formats_of(door))
    assert [line for line in lines if line["seconds"] > seconds or line["kb"] > MOST_KB] == []
