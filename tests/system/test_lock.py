"""The lock pins every package that the extras name, and what these need; installing goes by it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from helpers.paths import ROOT

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
    needed = {name for name, _ in seen if not name.startswith(CUDA)} - {"chemspec-smiles", "triton"}
    assert needed - pinned == set()
    assert {"authlib", "joserfc"} <= pinned, "the extra login, which no test installs"


def test_the_readme_and_ci_install_by_the_lock() -> None:
    for name in ("README.md", "SECURITY.md"):
        commands = re.findall(r"pip install .*", (ROOT / name).read_text(encoding="utf-8"))
        assert commands
        by_lock = r"pip install (--no-compile )?(-c constraints\.txt |--require-hashes -r hashes\.txt && )"
        assert [command for command in commands if not re.match(by_lock, command)] == []
    commands = re.findall(r".*-e \"\.\[.*", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    commands = [command for command in commands if '"${uv[@]}"' not in command]  # which is checked below
    assert commands and all("-c constraints.txt" in command for command in commands)
    assert 'uv=("$bin/uv" pip install -q --python "$bin/python" -c "$lock")' in (ROOT / ".ci" / "run").read_text()


def test_every_package_of_the_lock_has_hashes() -> None:
    text = (ROOT / "hashes.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    pinned = {line.partition(" --hash")[0].strip() for line in lines}
    assert all(re.fullmatch(r"[\w.-]+==\S+( ; .+?)? +(--hash=sha256:[0-9a-f]{64} *)+", line) for line in lines)
    locked = {line for line in LOCK.splitlines() if not line.startswith("#")}
    assert locked <= pinned
    assert {line for line in pinned - locked if not line.startswith((*CUDA, "triton=="))} == set()


def check_supply(kind: str, document: object, folder: Path) -> tuple[int, str]:
    """Run `.ci/check-supply` on a document."""
    file = folder / "document.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    command = [sys.executable, str(ROOT / ".ci" / "check-supply"), kind, str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.stderr
    return done.returncode, done.stdout


def test_what_was_installed_is_compared_with_the_lock(tmp_path: Path) -> None:
    numpy, torch = (re.findall(rf"^{name}==\S+", LOCK, re.M)[0] for name in ("numpy", "torch"))
    good = ["-e file:///here", "pip==24.0", numpy, f"{torch}+cpu"]
    assert check_supply("installed", "\n".join(good), tmp_path) == (
        0, "installed: 2 packages compared with hashes.txt\n"
    )  # fmt: skip
    for bad in ("numpy==0.0.1", "evil==1", "evil @ https://x/a.whl"):
        code, told = check_supply("installed", "\n".join([*good, bad]), tmp_path)
        assert code == 1 and f"{bad} is not in hashes.txt" in told


def test_audits_tell_flaws_and_what_could_not_be_looked_up(tmp_path: Path) -> None:
    fine = {"name": "a", "version": "1", "vulns": []}
    bad = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1"}]}
    away = {"name": "c", "version": "3", "skip_reason": "not found"}
    assert check_supply("audit", {"dependencies": [fine, away]}, tmp_path) == (0, "audit: 1 of 2 packages looked up\n")
    assert check_supply("audit", {"dependencies": [bad, away]}, tmp_path)[0] == 1
    for nothing in ({"dependencies": [away]}, ""):
        code, told = check_supply("audit", nothing, tmp_path)
        assert code == 0 and "SKIPPED" in told
    low, high = (
        {"metadata": {"dependencies": {"total": 9}}, "vulnerabilities": {"x": {"severity": s}}} for s in ("low", "high")
    )
    assert check_supply("npm", low, tmp_path) == (0, "npm: 9 packages of npm looked up\n")
    assert check_supply("npm", high, tmp_path) == (1, "npm: 9 packages of npm looked up\n  x: high\n")
    assert "SKIPPED" in check_supply("npm", {"message": "405"}, tmp_path)[1]
    code, told = check_supply("sbom", {"components": [{"name": "numpy", "version": "0"}]}, tmp_path)
    assert code == 1 and "is missing" in told
