"""The mutants of `mutants.py` are programs that differ in one place, and each has tests that are near."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from random import Random

import mutants
import pytest
from paths import ROOT, TESTS


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


def test_every_mutant_has_tests_that_are_near(sample: list[mutants.Mutant]) -> None:
    for mutant in sample:
        nearest = mutants.nearest_tests(mutant.file)
        assert 1 <= len(nearest) <= mutants.NEAREST
        assert all((TESTS / test).is_file() for test in nearest)
    assert mutants.nearest_tests("chemspec/io/crashes.py")[0] == "io/test_crashes.py"
    assert mutants.nearest_tests("chemspec/decode/compiled/search.h")[0] == "decode/test_compiled_loop.py"


def test_what_is_listed_as_equivalent_is_still_a_mutant() -> None:
    lines = mutants.EQUIVALENT.read_text().splitlines()
    listed = [json.loads(line) for line in lines]
    assert all(len(entry) == 4 and entry[3] for entry in listed), "file, line before and after, and the reason"
    for file in {entry[0] for entry in listed}:
        made = {mutants.described(mutant) for mutant in mutants.mutants_of(Path(ROOT, file))}
        assert [entry for entry in listed if entry[0] == file and tuple(entry[:3]) not in made] == []
