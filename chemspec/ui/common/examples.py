"""Named reactions to try with one click: `assets/examples/gallery.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from chemspec.asset_files import assets_folder
from chemspec.settings import Task


@dataclass(frozen=True)
class Example:
    """A query for one task, its name and a line of explanation."""

    task: Task
    name: str
    line: str
    smiles: str


@cache
def load_examples(task: Task | None = None) -> tuple[Example, ...]:
    """Return the examples that come with the program, for all tasks or for one."""
    items = json.loads((assets_folder() / "examples" / "gallery.json").read_text(encoding="utf-8"))
    return tuple(Example(**item) for item in items if task in (None, item["task"]))
