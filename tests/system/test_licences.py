"""Whose work is in an install, and on which terms."""

from __future__ import annotations

import json
from pathlib import Path

from paths import ROOT
from typer.testing import CliRunner

from chemspec.cli import app
from chemspec.system import licences


def test_what_is_needed_is_listed_with_what_that_needs() -> None:
    names = {package.name.lower() for package in licences.python_packages()}
    assert {"chemspec", "numpy", "torch", "rdkit", "safetensors", "typer", "msgspec", "sympy"} <= names
    assert "streamlit" not in names


def test_an_extra_may_name_another() -> None:
    assert "pyarrow" in {package.name for package in licences.python_packages(extras=frozenset({"app"}))}


def test_npm_packages_are_those_of_the_lock_file(tmp_path: Path) -> None:
    lock = tmp_path / "package-lock.json"
    parts = {
        "": {},
        "node_modules/a": {"version": "1", "license": "MIT"},
        "node_modules/a/node_modules/@b/c": {"version": "2"},
    }
    lock.write_text(json.dumps({"packages": parts}))
    assert licences.npm_packages(lock) == [("npm", "@b/c", "2", "not said"), ("npm", "a", "1", "MIT")]


def test_the_command_lists_both_and_those_that_do_not_say_are_known() -> None:
    result = CliRunner().invoke(app, ["dev", "licences", "--json"])
    packages = json.loads(result.stdout)["packages"]
    assert {package["kind"] for package in packages} == {"python", "npm"}
    assert [package["name"] for package in packages if package["licence"] == "not said"] == [
        "asap",  # MIT, says its LICENSE.md
        "eve-raphael",  # Apache-2.0, says its LICENSE
    ]


def test_the_lock_file_pins_every_package_by_its_digest() -> None:
    lines = [line for line in (ROOT / "requirements-app.lock").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) > 40 and all("==" in line and " --hash=sha256:" in line for line in lines)
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines}
    assert {"torch", "streamlit", "rdkit", "numpy", "safetensors"} <= pinned
