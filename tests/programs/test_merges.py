"""The table of larger tokens: lengths fall with merges, and models with and without them are compared by turns."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from helpers.small import MERGED, QUERIES, tiny_folder
from programs import merges
from typer.testing import CliRunner


def run(*words: object) -> str:
    done = CliRunner().invoke(merges.app, [*map(str, words)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with (tmp_path / "test.csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, ["product", "reactants", "mapped_rxn"])
        writer.writeheader()
        writer.writerows({"product": text, "reactants": f"{text}.O", "mapped_rxn": ""} for text in QUERIES * 2)
    return tmp_path / "test.csv"


def test_lengths_fall_with_the_number_of_merges(file: Path) -> None:
    lines = run("lengths", file, "--learn", 8, "--measure", 6).splitlines()
    shares = [float(line.split()[1]) for line in lines if line.split() and line.split()[0] in map(str, merges.COUNTS)]
    assert len(shares) == len(merges.COUNTS)
    assert shares == sorted(shares, reverse=True) and shares[-1] < 0.6


def test_models_with_and_without_merges_are_compared(file: Path, tmp_path: Path) -> None:
    folders = tiny_folder(tmp_path / "single"), tiny_folder(tmp_path / "merged", tokenizer=MERGED)
    models = [word for folder in folders for word in ("--model", folder)]
    rows = json.loads(run("accuracy", *models, "--file", file, "-n", 3, "--out", tmp_path / "out").splitlines()[-1])
    assert [row["model"] for row in rows] == [*map(str, folders)]
    assert all(row["top-1"] == "0.0" and float(row["invalid"]) > 0 for row in rows)
    words = ("--limit", 3, "--widths", "1,2", "--batches", "1,2", "--augment", 2, "--repeats", 1)
    lines = run("times", *models, "--file", file, *words).splitlines()
    assert len(lines) == 2 * 2 * 5  # models, drafters, and four searches with one of several variants
    assert sum(line.endswith("1.00 of the time") for line in lines) >= 10
    assert lines[1].startswith(f"greedy, batch of 1, without drafts; {folders[1]}: ")
