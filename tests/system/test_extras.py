"""The core alone predicts; what needs an extra says which one."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from chemspec.engine.registry import installed
from chemspec.system import extras

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Runs the command line in a process that cannot import any package of an extra.
BLOCKED = f"""
import sys
for name in {sorted(extras.EXTRAS)!r}:
    sys.modules[name] = None
from chemspec.cli import main
main()
"""

needs_models = pytest.mark.skipif(not installed(), reason="no model in assets/models")


def chemspec(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with the core alone."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_each_extra_lists_the_packages_that_messages_name() -> None:
    listed = PROJECT["optional-dependencies"]
    for package, extra in extras.EXTRAS.items():
        names = {word.split(">")[0].split("<")[0] for word in listed[extra]}
        assert package in names, f"{package} is not in the extra {extra}"
    core = {word.split(">")[0] for word in PROJECT["dependencies"]}
    assert core == {"numpy", "torch", "rdkit", "safetensors", "typer", "rich", "msgspec"}
    assert not core & set(extras.EXTRAS)


def test_a_missing_package_is_told_with_the_command_that_helps() -> None:
    extras.require("json", "csv", what="nothing")
    with pytest.raises(ModuleNotFoundError, match=r"x\.pq: .* pip install 'chemspec\[files\]'"):
        missing(extras, "pyarrow")


def missing(module: Any, package: str) -> None:
    """Ask for a package as if it were not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, package, None)
        module.require(package, what="x.pq")


@pytest.mark.weights
@needs_models
def test_the_core_predicts_strings_and_files(tmp_path: Path) -> None:
    table, out = tmp_path / "queries.csv", tmp_path / "answers.csv"
    table.write_text("name,smiles\nanilide,CC(=O)Cl.Nc1ccccc1\nethanol,CCO\n")
    done = chemspec("predict", str(table), "--task", "forward", "-n", "1", "-o", str(out))
    assert done.returncode == 0, done.stderr
    rows = out.read_text().splitlines()
    assert len(rows) == 3 and "CC(=O)Nc1ccccc1" in rows[1]


@pytest.mark.weights
@needs_models
def test_without_compiler_and_onnx_runtime_torch_computes_and_says_so() -> None:
    query = ("predict", "CC(=O)Cl.Nc1ccccc1", "--task", "forward", "-n", "1")
    done = chemspec(*query, CHEMSPEC_NATIVE="0")
    assert done.returncode == 0 and "CC(=O)Nc1ccccc1" in done.stdout
    notes = [line for line in done.stderr.splitlines() if line.startswith("note:")]
    assert len(notes) == 1 and "C++ compiler" in notes[0] and "chemspec[onnx]" in notes[0]


@pytest.mark.weights
@needs_models
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("app", "--headless"), "app"),
        (("predict", "CCO", "--task", "forward", "-o", "answers.parquet"), "files"),
        (("predict", "CCO", "--task", "forward", "--runtime", "onnx"), "onnx"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_needs_an_extra_says_which(words: tuple[str, ...], extra: str) -> None:
    done = chemspec(*words)
    assert done.returncode == 2
    assert f"pip install 'chemspec[{extra}]'" in done.stderr and "Traceback" not in done.stderr
