"""Find the query column of a table by the usual names for a task (`TaskSpec.named`).

An arrow separates the columns of the two sides of a reaction, "|" alternative names of one column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from chemspec.chem import ARROW
from chemspec.settings import Task
from chemspec.tasks import TASKS

FIRST = ("smiles", "query")  # these have priority
LAST = ("source", "input")  # last resort: "source" may also mean a patent


def find_query_columns(names: Sequence[str], task: Task | None = None) -> tuple[int, ...]:
    """Return the index of the query column for a task (or for any task); empty if there is none.

    Two indices are the sides of a reaction, for tasks on whole reactions if no column has whole reactions.
    """
    index_of_key = {_normalise_name(name): index for index, name in reversed([*enumerate(names)])}
    task_names = [name for spec in TASKS.values() if task in (None, spec.name) for name in spec.named]
    for name in (*FIRST, *task_names, *_reaction_columns(), *LAST):
        indices = [
            next((index_of_key[alternative] for alternative in side.split("|") if alternative in index_of_key), None)
            for side in name.split(ARROW)
        ]
        if None not in indices:
            return tuple(index for index in indices if index is not None)
    return ()


def ambiguity_note(names: Sequence[str], indices: Sequence[int]) -> str:
    """Return a note on which columns are read if other columns have usual names too; else empty."""
    usual_keys = {
        alternative for spec in TASKS.values() for name in spec.named for alternative in re.split(r">>|\|", name)
    } | {*FIRST}
    others = [name for index, name in enumerate(names) if index not in indices and _normalise_name(name) in usual_keys]
    if not others and len(indices) == 1:
        return ""
    columns_read = ARROW.join(names[index] for index in indices)
    return f"the queries are read from {columns_read}" + (f", not from {', '.join(others)}" if others else "")


def query_of_row(row: Sequence[str], indices: Sequence[int]) -> str:
    """Return the query of a row, empty for an empty row."""
    cells = [row[index] for index in indices]
    return ARROW.join(cells) if any(cells) else ""


def _reaction_columns() -> list[str]:
    """Return names of columns with whole reactions, from which every task takes its side."""
    return [name for spec in TASKS.values() if spec.whole for name in spec.named if ARROW not in name]


def _normalise_name(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower()).removesuffix("_smiles")
