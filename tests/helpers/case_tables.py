"""Tables of inputs and what is expected of them, as text: lines of JSON, or several lines a case.

@name text              a definition; `{name}` in an input stands for its text
=== id title            a case begins; the input is what follows its line of dashes
key: value              what is expected; a key may stand several times
---
the input
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.paths import TESTS


def frozen(value: Any) -> Any:
    """The value with tuples in place of lists, as parameters of tests have them."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def table(name: str) -> list[Any]:
    """The rows of tests/NAME.jsonl; a line that begins with # says what the next one is about."""
    lines = (TESTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [frozen(json.loads(line)) for line in lines if not line.startswith("#")]


@dataclass
class Case:
    """An input and what is expected of it."""

    title: str
    expected: dict[str, list[str]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    text: str = ""


def read_cases(file: Path) -> list[Case]:
    """Return the cases of a table."""
    definitions: dict[str, str] = {}
    cases: list[Case] = []
    inside = False
    for line in file.read_text(encoding="utf-8").split("\n"):
        if line.startswith("=== "):
            cases.append(Case(line[4:].strip()))
            inside = False
        elif not cases:
            if match := re.fullmatch(r"@(\w+) (.*)", line):
                definitions[match[1]] = match[2]
        elif line == "---" and not inside:
            inside = True
        elif inside:
            cases[-1].lines.append(line)
        elif match := re.fullmatch(r"([\w>]+): ?(.*)", line):
            cases[-1].expected.setdefault(match[1], []).append(match[2])
        elif line.strip():
            raise ValueError(f"{file}: {line!r} is neither 'key: value' nor '---'")
    for case in cases:
        while case.lines and not case.lines[-1].strip():  # between two cases
            case.lines.pop()
        case.text = "\n".join(case.lines) + "\n"
        for _ in range(3):  # definitions may use others
            case.text = re.sub(r"\{(\w+)\}", lambda match: definitions.get(match[1], match[0]), case.text)
        case.text = case.text.replace("\\t", "\t")
    return cases
