"""`chemspec precedents`: make an index, ask it, and be told in a line what is wrong."""

from __future__ import annotations

from pathlib import Path

import command_line
import pytest
from click.testing import Result
from command_line import last
from precedents_index import files

AMIDE = "CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_PRECEDENTS", str(tmp_path / "home" / "index.safetensors"))
    files(tmp_path)


def call(*words: object) -> Result:
    return command_line.call("precedents", *words)


def build(folder: Path, *more: object) -> Result:
    return call("build", "--source", folder, "--workers", 1, *more)


def test_what_was_built_is_found(tmp_path: Path) -> None:
    made = build(tmp_path, "--file", "retro_train.csv.gz", "--reagents-from", "forward_train.csv.gz")
    assert made.exit_code == 0
    assert "3 reactions" in made.output and "with reagents 1" in made.output
    told = call("find", AMIDE)
    assert told.exit_code == 0
    assert "2 patent reactions make this change" in told.output
    assert "this very reaction is in retro_train, forward_train" in told.output
    assert "US01000001" in told.output and "DCM, Et₃N" in told.output


def test_scripts_get_one_document(tmp_path: Path) -> None:
    report = last(build(tmp_path, "--json"))
    assert report["reactions"] == 3  # of the files named by default only that of retro is here
    found = last(call("find", AMIDE.replace(">>", ">CCN(CC)CC>"), "--json", "-n", 1))
    assert (found["close"], found["same"]["patent"], len(found["nearest"])) == (2, "US01000001", 1)


def test_nothing_found_is_told_by_the_exit_code(tmp_path: Path) -> None:
    build(tmp_path)
    none = call("find", "C=CC=C.C=CC=O>>O=CC1CC=CCC1")
    assert none.exit_code == 1 and "no patent reaction at hand" in none.output
