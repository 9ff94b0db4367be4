"""Which column of a table holds the queries, by the names that are usual for a task (`TaskSpec.named`).

An arrow stands between the columns of a reaction's two sides, "|" between names of one column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from chemspec.chem import ARROW
from chemspec.settings import Task
from chemspec.tasks import TASKS

FIRST = ("smiles", "query")  # whatever else there is: what a table of structures is about
LAST = ("source", "input")  # where there is nothing better: a source may as well be a patent


def usual(names: Sequence[str], task: Task | None = None) -> tuple[int, ...]:
    """Return the place of the column with the queries of a task (of any, without one) by its name; empty if none is.

    Two places are those of the sides of a reaction, where the task is about whole ones and no column holds them whole.
    """
    places = {_key(name): place for place, name in reversed([*enumerate(names)])}
    own = [name for spec in TASKS.values() if task in (None, spec.name) for name in spec.named]
    for name in (*FIRST, *own, *_reactions(), *LAST):
        found = [next((places[one] for one in side.split("|") if one in places), None) for side in name.split(ARROW)]
        if None not in found:
            return tuple(place for place in found if place is not None)
    return ()


def note(names: Sequence[str], places: Sequence[int]) -> str:
    """Return which columns are read, where the name of another says that it might have been meant; else nothing."""
    known = {one for spec in TASKS.values() for name in spec.named for one in re.split(r">>|\|", name)} | {*FIRST}
    others = [name for place, name in enumerate(names) if place not in places and _key(name) in known]
    if not others and len(places) == 1:
        return ""
    read = ARROW.join(names[place] for place in places)
    return f"the queries are read from {read}" + (f", not from {', '.join(others)}" if others else "")


def text(row: Sequence[str], places: Sequence[int]) -> str:
    """Return the query of a row; a row without any stays empty."""
    cells = [row[place] for place in places]
    return ARROW.join(cells) if any(cells) else ""


def _reactions() -> list[str]:
    """Return names of columns that hold whole reactions: every task finds its side there."""
    return [name for spec in TASKS.values() if spec.whole for name in spec.named if ARROW not in name]


def _key(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower()).removesuffix("_smiles")
