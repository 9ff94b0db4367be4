"""The core alone predicts; what needs an extra says which one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from paths import ROOT

from chemspec.engine.registry import installed_models
from chemspec.system import extras

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Runs the command line in a process that cannot import any package of an extra.
BLOCKED = f"""
import sys
for name in {sorted(extras.EXTRAS)!r}:
    sys.modules[name] = None
from chemspec.cli.__main__ import main
main()
"""


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
        names = {re.split(r"[<>\[]", word)[0] for word in listed[extra]}
        names |= {name.removesuffix("-python").replace("-", "_") for name in names}
        assert package in names, f"{package} is not in the extra {extra}"
    core = {word.split(">")[0] for word in PROJECT["dependencies"]}
    assert core == {"numpy", "torch", "rdkit", "safetensors", "typer", "rich", "pillow", "msgspec", "urllib3"}
    assert not core & set(extras.EXTRAS)


def test_a_missing_package_is_told_with_the_command_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    extras.require_packages("json", "csv", what="nothing")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"x\.pq: .* pip install 'chemspec\[files\]'"):
        extras.require_packages("pyarrow", what="x.pq")


@pytest.mark.skipif(not installed_models(), reason="no model in assets/models")
@pytest.mark.smoke  # imports torch in a process of its own
def test_the_core_predicts_a_file_and_torch_computes_where_nothing_else_can(tmp_path: Path) -> None:
    table, out = tmp_path / "queries.csv", tmp_path / "answers.csv"
    table.write_text("name,smiles\nanilide,CC(=O)Cl.Nc1ccccc1\n")
    options = ["--task", "forward", "-n", "1", "--drafter", "copy", "--threads", "1"]
    words = ("predict", str(table), "-o", str(out), *options)
    done = chemspec(*words, CHEMSPEC_NATIVE="0")
    assert done.returncode == 0, done.stderr
    rows = out.read_text().splitlines()
    assert len(rows) == 2 and "CC(=O)Nc1ccccc1" in rows[1]
    notes = [line for line in done.stderr.splitlines() if line.startswith("note:")]
    assert len(notes) == 1 and "C++ compiler" in notes[0] and "chemspec[compiler]" in notes[0]


@pytest.mark.parametrize(
    ("words", "extra"), [(("app", "--headless"), "app"), (("predict", "x.parquet", "--task", "forward"), "files")]
)
def test_commands_say_which_extra_they_need(words: tuple[str, ...], extra: str, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"")
    done = chemspec(*[str(tmp_path / word) if word == "x.parquet" else word for word in words])
    assert done.returncode == 2
    assert f"pip install 'chemspec[{extra}]'" in done.stderr and "Traceback" not in done.stderr
