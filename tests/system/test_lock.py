"""The lock pins every package that the extras name, and what these need; installing goes by it."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires

import pytest
from paths import ROOT

requirements = pytest.importorskip("packaging.requirements")
LOCK = (ROOT / "constraints.txt").read_text()
CUDA = ("nvidia-", "cuda-")  # torch asks for exact versions of these by itself


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed_by(lines: list[str], extras: set[str]) -> set[tuple[str, frozenset[str]]]:
    """The packages that requirements name on this machine, with their extras."""
    parsed = [requirements.Requirement(line) for line in lines]
    chosen = [one for one in parsed if not one.marker or any(one.marker.evaluate({"extra": e}) for e in extras | {""})]
    return {(normalized(one.name), frozenset(one.extras)) for one in chosen}


def test_the_lock_pins_all_that_the_extras_name_and_what_they_need() -> None:
    lines = [line for line in LOCK.splitlines() if not line.startswith("#")]
    assert all(re.match(r"[\w.-]+==[\w.]+( ; .+)?$", line) for line in lines)
    pinned = {normalized(line.partition("==")[0]) for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = needed_by(named, set())
    while waiting:
        seen.add(package := waiting.pop())
        try:
            waiting |= needed_by(requires(package[0]) or [], set(package[1])) - seen
        except PackageNotFoundError:  # an extra that is not installed here
            continue
    needed = {name for name, _ in seen if not name.startswith(CUDA)} - {"chemspec-smiles"}
    assert needed - pinned == set()
    assert {"authlib", "joserfc"} <= pinned, "the extra login, which no test installs"


def test_the_readme_and_ci_install_by_the_lock() -> None:
    for name in ("README.md", "SECURITY.md"):
        commands = re.findall(r"pip install .*", (ROOT / name).read_text(encoding="utf-8"))
        assert commands
        assert [command for command in commands if not command.startswith("pip install -c constraints.txt ")] == []
    commands = re.findall(r".*-e \"\.\[.*", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    commands = [command for command in commands if '"${pip[@]}"' not in command]  # which is checked below
    assert commands and all("-c constraints.txt" in command for command in commands)
    assert '"$bin/pip" install -q --no-compile -c constraints.txt)' in (ROOT / ".ci" / "run").read_text()
