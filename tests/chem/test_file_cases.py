"""Structure files and drawings as programs write them, by tables: pasted, uploaded, and as files of records."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.case_tables import Case, read_cases

from chemspec import chem
from chemspec.chem.formats import Input, read_input
from chemspec.io.readers import read_text
from chemspec.tasks import TASKS, check_task

CASES = [case for file in sorted((Path(__file__).parent / "cases").glob("*.txt")) for case in read_cases(file)]


def expect(text: str, task: str, expected: str) -> Input | chem.Fault:
    """Read a text for a task, and compare with SMILES or with "refused:" and words of the message."""
    found = read_input(text, task=check_task(task))
    if expected.startswith("refused:"):
        assert isinstance(found, chem.Fault), (task, found)
        assert expected.removeprefix("refused:").strip() in found.message
    else:
        assert isinstance(found, Input), (task, found)
        sides = [chem.canonical(side) if side else "" for side in expected.split(">>")]
        assert found.smiles == ">>".join(map(str, sides)), task
    return found


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_a_file_of_the_table(case: Case) -> None:
    keys = {*case.expected} - {"note", "nonote", "rows"}
    assert keys and keys <= {*TASKS}
    found = [expect(case.text, task, expected) for task in keys for expected in case.expected[task]]
    notes = "; ".join(note for read in found if isinstance(read, Input) for note in read.notes)
    for words in case.expected.get("note", ()):
        assert words in notes
    for words in case.expected.get("nonote", ()):
        assert words not in notes
    for rows in case.expected.get("rows", ()):
        task, _, expected = rows.partition(" ")
        texts = read_text(case.text, "a file")
        assert len(texts) == len(expected.split(" | "))
        for text, one in zip(texts, expected.split(" | "), strict=True):
            expect(text, task, one)
