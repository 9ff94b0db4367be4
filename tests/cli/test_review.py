"""`predict --review` and the forward check of `check`: as text, JSON, CSV and JSONL, on models with random weights."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from helpers.command_line import call, last, refusal
from helpers.small import QUERIES

from chemspec.chem.checks import flask_check
from chemspec.review.rows import ANSWER_COLUMNS

pytestmark = pytest.mark.usefixtures("models")
RETRO = ("--task", "retro", "-n", 5, "--max-len", 12, "--drafter", "none", "--threads", 1)
QUERY = QUERIES[1]


def test_json_has_a_review_of_each_result() -> None:
    fine, bad = last(call("predict", QUERY, "CC(", *RETRO, "--review", "--json"))["results"]
    assert bad["review"]["suggestions"] == [] and fine["review"]["smiles"] == QUERY
    suggestions = fine["review"]["suggestions"]
    assert suggestions and [item["rank"] for item in suggestions] == list(range(1, len(suggestions) + 1))
    members = [item["smiles"] for suggestion in suggestions for item in (suggestion, *suggestion["alternatives"])]
    assert sorted(members) == sorted(answer["canonical"] for answer in fine["hypotheses"])
    assert all(item["forward"]["verdict"] in ("agrees", "unsure", "differs") for item in suggestions)
    assert "review" not in last(call("predict", QUERY, *RETRO, "--json"))["results"][0]
    assert "forward model" in call("predict", QUERY, *RETRO, "--review").stdout


def test_text_names_hazards_as_the_document_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chemspec.chem.checks.flask_check.load_hazards", lambda: [["[#6]", "carbon is here"]])
    flask_check.hazards.cache_clear()
    assert "carbon is here" in call("predict", QUERY, *RETRO, "--review").stdout
    flask_check.hazards.cache_clear()


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
    chances = {fine[f"strategy_probability_{k}"] for k in range(1, 6)}
    assert chances == {""}, "a model without calibration has no probability of a strategy"
    told = refusal("predict", QUERY, "CC(", *RETRO, "-o", "a.csv")
    assert "a.csv" in told, "a file without reviews has other columns"


def test_a_check_of_reactants_has_the_forward_verdict() -> None:
    forward, retro = last(call("check", f"CC(=O)O.Nc1ccccc1>>{QUERY}", "-n", 3, "--threads", 1, "--json"))["checks"]
    assert forward["forward"] is None and forward["forward_of"] == {}
    assert retro["forward"]["verdict"] in ("agrees", "unsure", "differs")
    valid = {answer["canonical"] for answer in retro["result"]["hypotheses"] if answer["valid"]}
    assert set(retro["forward_of"]) == valid


def test_a_check_says_why_where_asked() -> None:
    words = ("check", f"CC(=O)O.Nc1ccccc1>>{QUERY}", "--task", "retro", "-n", 3, "--threads", 1)
    (found,) = last(call(*words, "--why", "--json"))["checks"]
    why = found["why"]
    assert f"  why: {why['path']}\n" in call(*words, "--why").stdout
    assert [token["text"] for token in why["tokens"]][-1] == "end" and why["model_probability"] > 0
    assert (why["departure"] is None) == found["agrees"] and why["variations"]
    assert "why" not in last(call(*words, "--json"))["checks"][0]
