"""Files of many molecules as programs and people write them, by a table: which queries are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_tables import Case, read_cases

from chemspec.io.readers import FileError, read_queries
from chemspec.tasks import TASKS, check_task

CASES = read_cases(Path(__file__).parent / "cases" / "tables.txt")


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_the_queries_of_a_file_of_the_table(tmp_path: Path, case: Case) -> None:
    path = tmp_path / case.expected["file"][0]
    path.write_text(case.text)
    tasks = [name for name in case.expected if name in TASKS]
    assert tasks and set(case.expected) == {"file", *tasks}
    for task in tasks:
        (expected,) = case.expected[task]
        if expected.startswith("refused:"):
            with pytest.raises(FileError) as caught:
                read_queries(path, task=check_task(task))
            assert expected.removeprefix("refused:").strip() in str(caught.value)
        else:
            assert read_queries(path, task=check_task(task)) == expected.split(" | ")
