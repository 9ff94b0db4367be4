"""`chemspec precedents build`: make an index, which `chemspec check` reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from helpers import command_line
from helpers.command_line import last
from helpers.precedents_index import files

CHECK = ("check", "CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1", "--task", "retro", "--n", 2, "--threads", 1)


pytestmark = pytest.mark.usefixtures("models")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_PRECEDENTS", str(tmp_path / "home" / "index.safetensors"))
    files(tmp_path)


def call(*words: object) -> Result:
    return command_line.call("precedents", *words)


def build(folder: Path, *more: object) -> Result:
    return call("build", "--source", folder, "--workers", 1, *more)


def test_it_says_what_was_built(tmp_path: Path) -> None:
    made = build(tmp_path, "--file", "retro_train.csv.gz", "--reagents-from", "forward_train.csv.gz")
    assert made.exit_code == 0
    assert "3 reactions" in made.output and "with reagents 1" in made.output


def test_scripts_get_one_document(tmp_path: Path) -> None:
    report = last(build(tmp_path, "--json"))
    assert report["reactions"] == 3  # of the files named by default only that of retro is here
    assert last(command_line.call(*CHECK, "--json"))["checks"][0]["precedents"]["close"] == 2


def test_a_check_counts_what_was_built(tmp_path: Path) -> None:
    assert "precedents" not in command_line.call(*CHECK).stdout
    build(tmp_path)
    assert "  precedents: 2 patent reactions make this change (US01000001" in command_line.call(*CHECK).stdout
    other = command_line.call("check", "C=CC=C.C=CC=O>>O=CC1CC=CCC1", *CHECK[2:])
    assert "  precedents: no patent reaction at hand\n" in other.stdout
