"""Would the default tests notice? Each fault is seeded into a copy of the program, and a default test must turn red.

A fault is a line of the program and what takes its place; the files named are those that should notice.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.case_tables import table
from helpers.copies import copy_program
from helpers.groups import DEFAULT
from helpers.paths import ROOT

slow = pytest.mark.slow  # a run of the default tests in a process of its own for every fault


class Fault(NamedTuple):
    """What is wrong, where, and which test files must tell."""

    file: str
    right: str
    wrong: str
    tests: str


FAULTS = {name: Fault(*fault) for name, *fault in table("programs/seeded_faults")}


def run(tree: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run the default tests of some files against the copy; stop at the first that fails."""
    words = [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", DEFAULT]
    return subprocess.run(
        [*words, str(tree / "tests" / tests)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTEST_ADDOPTS": "", "HYPOTHESIS_PROFILE": "seeded"},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a test run needs."""
    return copy_program(tmp_path_factory.mktemp("tree"))


# One decoder and the mask at every push, to see that the check works; the others every night, beside the mutants: what
# tests notice changes when tests are taken out, seldom with the program.
AT_EVERY_PUSH = {"a beam keeps one hypothesis too many", "a node sees its siblings"}


def test_what_faults_replace_is_there() -> None:
    texts = {fault.file: (ROOT / "chemspec" / fault.file).read_text(encoding="utf-8") for fault in FAULTS.values()}
    gone = [name for name, fault in FAULTS.items() if fault.right not in texts[fault.file]]
    assert not gone, "these faults no longer fit the source: write them again"


@slow
@pytest.mark.parametrize(
    "name", [name if name in AT_EVERY_PUSH else pytest.param(name, marks=pytest.mark.nightly) for name in FAULTS]
)
def test_a_default_test_notices(name: str, tree: Path) -> None:
    fault = FAULTS[name]
    path = tree / "chemspec" / fault.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
    try:
        done = run(tree, fault.tests)
    finally:
        path.write_text(text, encoding="utf-8")
    assert done.returncode == 1 and "\nFAILED " in done.stdout, done.stdout[-2000:] + done.stderr[-1000:]


@slow
@pytest.mark.nightly  # .ci/run has just seen the same files pass
@pytest.mark.parametrize("tests", sorted({fault.tests for fault in FAULTS.values()}))
def test_without_a_fault_they_pass(tests: str, tree: Path) -> None:
    done = run(tree, tests)
    assert done.returncode == 0, done.stdout[-2000:]
