"""The package is written in the field's words: names and phrases of CONTRIBUTING's glossary are not used in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.paths import ROOT

NAMES = {"found", "one", "place", "places", "wanted", "asked", "known", "own", "told", "said", "kept", "way", "how"}
NAMES |= {"beside", "mine", "another", "some", "somebody"}
WORDS = re.compile(
    r"\b(lest|anew|whoever|whatever that|so many|be had|in any company|beside|somebody|nobody|anybody|to blame|foretell"
    r"|mend(?:ed|s)?|dear(?:er)?)\b"
)
PACKAGE = ROOT / "chemspec"
MODULES = sorted(PACKAGE.rglob("*.py"))

SCRIPTS = [
    *(ROOT / f"{name}.py" for name in ("app", "hatch_build", "hatch_kernels")),
    *(ROOT / ".ci" / name for name in ("check-files", "check-skips", "check-supply", "split-wheel")),
    *(ROOT / "pages").glob("*.py"),
    *(file for name in ("docs", "examples", "names") for file in (ROOT / "assets" / name).rglob("*.py")),
]

FIELDS = {"own"}  # of public results and saved files, whose names are JSON keys


def banned(source: str) -> Iterator[tuple[int, str]]:
    """Lines with a banned argument, assigned name, or word in a name, docstring, comment or text."""
    tree = ast.parse(source)
    fields = {node.target for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.arg in NAMES:
            yield node.lineno, node.arg
        elif (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and node.id in NAMES - (FIELDS if node in fields else set())
        ):
            yield node.lineno, node.id
    for number, line in enumerate(source.splitlines(), 1):
        yield from ((number, word) for word in WORDS.findall(line.replace("_", " ")))


@pytest.mark.parametrize("folder", sorted({file.relative_to(PACKAGE).parts[0] for file in MODULES}))
def test_the_words_of_the_field_are_used(folder: str) -> None:
    files = [file for file in MODULES if file.relative_to(PACKAGE).parts[0] == folder]
    hits = [
        (f"{file.relative_to(ROOT)}:{line}", word) for file in files for line, word in banned(file.read_text("utf-8"))
    ]
    assert not hits, "refused in chemspec/: see NAMES and WORDS above, and the terms in CONTRIBUTING.md, Words"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: file.name)
def test_so_are_they_in_scripts(script: Path) -> None:
    assert not list(banned(script.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "source",
    [
        "def f(kept): ...",
        "for one in (): ...",
        "x = [how for how in ()]",
        '"""Whoever reads this."""'.lower(),
        "# anew",
    ],
)
def test_a_banned_name_or_word_is_found(source: str) -> None:
    assert list(banned(source))
