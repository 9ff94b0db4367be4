"""`predict --review` and the forward check of `check`: as text, JSON, CSV and JSONL, on models with random weights."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from small import QUERIES, tiny_folder
from typer.testing import CliRunner

from chemspec.cli.__main__ import app
from chemspec.review.review import ANSWER_COLUMNS

RETRO = ("--task", "retro", "-n", 5, "--max-len", 12, "--drafter", "none", "--threads", 1)
QUERY = QUERIES[1]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # With these seeds some of the answers are molecules.
    folder = tmp_path_factory.mktemp("models")
    tiny_folder(folder / "retro", seed=4)
    tiny_folder(folder / "forward", task="forward", seed=3)
    tiny_folder(folder / "reagents", task="reagents", seed=3)
    return folder


@pytest.fixture(autouse=True)
def _models(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(home))
    monkeypatch.chdir(tmp_path)


def call(*words: object) -> Result:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def last(result: Result) -> Any:
    return json.loads(result.stdout.rstrip("\n").split("\n")[-1])


def test_json_has_a_review_of_each_result() -> None:
    fine, bad = last(call("predict", QUERY, "CC(", *RETRO, "--review", "--json"))["results"]
    assert bad["review"]["suggestions"] == [] and fine["review"]["smiles"] == QUERY
    suggestions = fine["review"]["suggestions"]
    assert suggestions and [item["rank"] for item in suggestions] == list(range(1, len(suggestions) + 1))
    members = [item["smiles"] for suggestion in suggestions for item in (suggestion, *suggestion["alternatives"])]
    assert sorted(members) == sorted(answer["canonical"] for answer in fine["hypotheses"])
    assert all(item["forward"]["verdict"] in ("agrees", "unsure", "differs") for item in suggestions)
    assert "review" not in last(call("predict", QUERY, *RETRO, "--json"))["results"][0]


def test_text_has_a_table_of_suggestions() -> None:
    text = call("predict", QUERY, *RETRO, "--review").stdout
    assert "forward model" in text and "class" in text


def test_rows_of_files_have_the_review() -> None:
    assert call("predict", QUERY, "CC(", *RETRO, "--review", "-o", "a.csv").exit_code == 1
    call("predict", QUERY, "CC(", *RETRO, "--review", "-o", "a.jsonl")
    with Path("a.csv").open(encoding="utf-8") as file:
        fine, bad = csv.DictReader(file)
    assert all(f"{name}_{k}" in fine for k in range(1, 6) for name in ANSWER_COLUMNS)
    assert fine["forward_model_1"] and fine["strategy_1"].isdigit() and not bad["forward_model_1"]
    document, _ = (json.loads(line) for line in Path("a.jsonl").read_text().splitlines())
    by_smiles = {item["smiles"]: item for item in document["review"]["suggestions"]}
    first = by_smiles.get(fine["smiles_1"])
    assert first is None or str(first["rank"]) == fine["strategy_1"]
    refused = call("predict", QUERY, "CC(", *RETRO, "-o", "a.csv")
    assert refused.exit_code == 2 and "a.csv" in refused.stderr, "a file without reviews has other columns"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--stock", "mine.smi"), "--review"),
        (("--review", "-o", "a.parquet"), "reviews"),
        (("--review", "-o", "a.jsonl", "--receipts"), "reviews"),
        (("--review", "--ray", "local"), "--review"),
    ],
)
def test_what_does_not_go_together_is_told(words: tuple[str, ...], part: str) -> None:
    result = call("predict", QUERY, *RETRO, *words)
    assert result.exit_code == 2 and part in result.stderr


def test_reagents_have_no_review() -> None:
    result = call("predict", "CC(=O)Cl.CN>>CNC(C)=O", "-t", "reagents", "-n", 1, "--review", "--threads", 1)
    assert result.exit_code == 2 and "no review of reagents" in result.stderr


def test_a_check_of_reactants_has_the_forward_verdict() -> None:
    forward, retro = last(call("check", f"CC(=O)O.Nc1ccccc1>>{QUERY}", "-n", 3, "--threads", 1, "--json"))["checks"]
    assert forward["forward"] is None and forward["forward_of"] == {}
    assert retro["forward"]["verdict"] in ("agrees", "unsure", "differs")
    valid = {answer["canonical"] for answer in retro["result"]["hypotheses"] if answer["valid"]}
    assert set(retro["forward_of"]) == valid
