"""A model with merged tokens by the documented commands alone: data, training, drafters, predictions, evaluation."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from helpers.command_line import call

from chemspec.engine.engine import Engine
from chemspec.model import checkpoint
from chemspec.settings import DecodeSettings
from chemspec.testing import naive_greedy
from chemspec.tokenizer import Tokenizer
from chemspec.train.initial_weights import Transformer

RECIPE = """
task = "retro"
preset = "tiny"
train_files = ["mine.csv"]
validation_files = ["valid.csv"]
expectation = "Nothing."
[data]
guess_maps = true
min_count = 1
variants = 3
{data}
[validation_data]
guess_maps = true
variants = 1
[train]
steps = {steps}
warmup = 2
tokens = 400
validate_every = 1000
threads = 1
"""


def write_reactions(folder: Path) -> None:
    """Write amides of acids and amines of several lengths, every fifth for validation."""
    acids = ["C" * length + "C(=O)O" for length in range(1, 7)] + ["O=C(O)c1ccccc1", "O=C(O)c1ccc(C)cc1"]
    amines = ["N" + "C" * length for length in range(1, 5)] + ["Nc1ccccc1", "NCc1ccccc1"]
    rows = []
    for acid in acids:
        for amine in amines:
            head, tail = acid.replace("O=C(O)", "O=C(X)"), acid.replace("C(=O)O", "C(=O)")
            product = head.replace("X", amine) if "X" in head else tail + amine
            rows.append({"product": product, "reactants": f"{acid}.{amine}"})
    for name, part in (("valid", rows[::5]), ("mine", [row for index, row in enumerate(rows) if index % 5])):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, ["product", "reactants"])
            writer.writeheader()
            writer.writerows(part)


def run(*words: object) -> str:
    done = call(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


def make(name: str, folder: Path, data: str, steps: int, *more: object) -> Path:
    """Prepare data and train; returns the model folder."""
    recipe = folder / f"{name}.toml"
    recipe.write_text(RECIPE.format(data=data, steps=steps), encoding="utf-8")
    vocabulary = ("--vocab", folder / "atoms-run" / "model" / "vocab.json") if more else ()
    out = folder / f"{name}-data"
    run("data", "--recipe", recipe, "--source", folder, "--out", out, "--workers", 1, *vocabulary)
    run("train", "--recipe", recipe, "--data", out, "--out", folder / f"{name}-run", *more)
    return folder / f"{name}-run" / "model"


def test_a_model_with_merges_is_trained_from_one_without_and_used(tmp_path: Path) -> None:
    write_reactions(tmp_path)
    atoms = make("atoms", tmp_path, "", 20)
    merged = make("merged", tmp_path, "merges = 10\nmerge_dropout = 0.2", 40, "--start", atoms)
    before, tokenizer = (Tokenizer.load(folder / "vocab.json") for folder in (atoms, merged))
    assert not before.merges and len(tokenizer.merges) == 10
    assert tokenizer.tokens[: len(before)] == before.tokens
    data = tmp_path / "merged-data"
    run("train", "calibrate", "--model", merged, "--data", data, "--queries", 4, "--pairs", 50, "--threads", 1)
    measured = json.loads(
        run(
            "evaluate",
            "--model",
            merged,
            "--file",
            tmp_path / "mine.csv",
            "--limit",
            6,
            "-n",
            3,
            "--json",
            "--out",
            tmp_path / "out.jsonl",
        ).splitlines()[-1]
    )
    assert measured["reactions"] == 6
    engine = Engine.load(merged, threads=1)
    assert engine.resources.calibration().edit_table is not None
    network = Transformer.of(checkpoint.load(merged).weights).eval()
    for query in ("CCC(=O)NCC", "O=C(Nc1ccccc1)c1ccccc1"):
        expected = naive_greedy(network, tokenizer.encode(query), 30).tokens
        for drafter in ("none", "copy", "mixed", "auto"):
            settings = DecodeSettings(decoder="greedy", n=1, drafter=drafter, drafting="fixed", max_len=30)
            (answers,) = engine.generate_ids([tokenizer.encode(query)], settings)
            assert answers[0].tokens == expected
