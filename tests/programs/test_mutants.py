"""The mutants of `mutants.py` are programs that differ in one place, and each runs the tests of its line."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from random import Random

import mutant_tests
import mutants
import pytest
from helpers.paths import ROOT


@pytest.fixture(scope="module")
def sample() -> list[mutants.Mutant]:
    return Random(0).sample(mutants.all_mutants("chemspec/plan") + mutants.all_mutants("chemspec/decode"), 150)


def test_a_mutant_is_a_program_that_differs_in_one_place(sample: list[mutants.Mutant]) -> None:
    for mutant in sample:
        source = (ROOT / mutant.file).read_text()
        changed = source[: mutant.start] + mutant.text + source[mutant.end :]
        assert changed != source
        if mutant.file.endswith(".py"):
            assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), mutants.described(mutant)


PROGRAM = """
LIMIT = 3

def add(a, b):
    return a + b

def double(a):
    return 2 * a

def unseen(a):
    return a - 1
"""
TESTS = """
from chemspec.plan.sums import LIMIT, add, double, unseen

def test_add():
    assert add(2, 3) == 5 and LIMIT < 5

def test_double():
    assert double(2) == 4

def test_that_sees_nothing():
    unseen(1)

def test_that_always_fails():
    assert double(1) == 3
"""


@pytest.mark.nightly  # when mutants run
def test_a_mutant_runs_the_tests_of_its_line_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, covered = tmp_path / "tree", tmp_path / "covered"
    for name, text in {
        "chemspec/plan/sums.py": PROGRAM,
        "tests/plan/test_sums.py": TESTS,
        "pytest.ini": "[pytest]",
        "chemspec/__init__.py": "",
        "chemspec/plan/__init__.py": "",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    mutant_tests.record(tree, covered)
    mutant_tests.record(tree, covered)
    assert len(list(covered.glob("*.json"))) == 1, "no test file has changed"
    found = mutant_tests.Covered.read(covered)
    assert {name.partition("::")[2] for name in found.seconds} == {"test_add", "test_double", "test_that_sees_nothing"}
    monkeypatch.setattr(mutants, "source_of", lambda _: PROGRAM)
    monkeypatch.setattr(mutants, "described", lambda mutant: (mutant.file, mutant.text, ""))
    cases = {"a + b": "test_add", "2 * a": "test_double", "a - 1": "", "3": "test_add"}
    with mutant_tests.Warm(tree, tmp_path) as warm:
        for text, noticing in cases.items():
            at = PROGRAM.index(text)
            mutant = mutants.Mutant("chemspec/plan/sums.py", at, at + len(text), "7")
            line = mutants.judged(mutant, tree, found, warm)
            assert line[3].partition("::")[2] == noticing, line
            assert line[4] == (3 if text == "3" else 1), "a line that runs at import has the tests of its file"
        assert (tree / "chemspec" / "plan" / "sums.py").read_text() == PROGRAM
        endless = mutants.Mutant(
            "chemspec/plan/sums.py", PROGRAM.index("return 2"), PROGRAM.index("2 * a"), "while 1: "
        )
        monkeypatch.setattr(mutants, "SPARE", 3.0)
        assert mutants.judged(endless, tree, found, warm)[3] == "time"


def test_what_survived_is_run_again_as_far_as_the_program_still_has_it(tmp_path: Path) -> None:
    first, second, third = mutants.mutants_of(ROOT / "chemspec" / "plan" / "orders.py")[:3]
    lines = [[*mutants.described(first), "", 1, 1], [*mutants.described(second), "test", 1, 1], ["gone", "a", "b", ""]]
    (tmp_path / mutants.RESULTS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert mutants.run_before(tmp_path, [first, second, third]) == [first, second]
    assert mutants.read_lines(tmp_path / mutants.RESULTS) == [lines[1]]


def test_what_is_listed_as_equivalent_is_still_a_mutant() -> None:
    lines = mutants.EQUIVALENT.read_text().splitlines()
    listed = [json.loads(line) for line in lines]
    assert all(len(entry) == 4 and entry[3] for entry in listed), "file, line before and after, and the reason"
    for file in {entry[0] for entry in listed}:
        made = {mutants.described(mutant) for mutant in mutants.mutants_of(Path(ROOT, file))}
        assert [entry for entry in listed if entry[0] == file and tuple(entry[:3]) not in made] == []
