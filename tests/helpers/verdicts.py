"""The forward check's verdict on the answers to queries, by every way in to a review."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from typer.testing import CliRunner

import chemspec
from chemspec import chem
from chemspec.cli.__main__ import app
from chemspec.engine.engine import Engine
from chemspec.io import writers
from chemspec.jobs import jobs, rows, worker
from chemspec.jobs.uploads import Sheet
from chemspec.plan.expand import Expander
from chemspec.precedents import installed
from chemspec.review import StepChecker, load_engines, review
from chemspec.settings import DecodeSettings, Task
from chemspec.stock.lists import Stock
from chemspec.types import DecodeResult
from chemspec.ui.common import login, queued_engine
from chemspec.ui.predict import query_panel, reviewing
from helpers.serving import serving

Verdicts = dict[tuple[str, str], str]  # by query and canonical reactants
Engines = Mapping[Task, Engine]


def load_models() -> dict[Task, Engine]:
    """Load the models in the precisions of `chemspec predict --review`."""
    return {**load_engines(("forward", "reagents"), threads=1), "retro": chemspec.load("retro", threads=1)}


def settings(n: int) -> DecodeSettings:
    """The search behind all ways in."""
    return DecodeSettings(n=n, distinct=True, drafter="none")


def by_library(engines: Engines, results: Sequence[DecodeResult], n: int) -> Verdicts:
    found = {}
    for result in results:
        reviewed = review(engines, "retro", result.query, settings(n))
        found |= {(result.query, reactants): check.verdict for reactants, check in reviewed.checks.items()}
    return found


def by_predict(engines: Engines, results: Sequence[DecodeResult], n: int) -> Verdicts:
    """Of the first answer of each card."""
    found = {}
    with visit(engines):
        for result in results:
            asked = query_panel.Question("retro", "retro", result.smiles, settings(n))
            for card in reviewing.review_answers(asked, result).suggestions:
                if card.check:
                    found[result.query, card.best.canonical] = card.check.verdict
    return found


def by_batch(engines: Engines, results: Sequence[DecodeResult], n: int) -> Verdicts:
    """From the table that a visitor downloads."""
    sheet = Sheet(("smiles",), tuple((result.query,) for result in results))
    about: dict[str, Any] = {"file": "f", "column": 0, "model": "retro", "digest": "", "task": "retro", "cards": n}
    job = jobs.create_job(sheet, settings=settings(n), **about)
    checker = StepChecker(engines["forward"], engines["reagents"], installed())
    reviews = [document for document, _ in worker.review_rows(job, checker, Stock({}), results)]
    pairs = zip(results, reviews, strict=True)
    lines = [json.dumps(writers.result_document(result) | {"review": review}) + "\n" for result, review in pairs]
    jobs.answers_file(job).write_text("".join(lines))
    table = rows.answers_as_csv(job).decode("utf-8-sig")
    found = {}
    for row in csv.DictReader(io.StringIO(table)):
        for k in range(1, n + 1):
            if text := row[f"forward_model_{k}"]:
                words, _, percent = text.partition(" (")
                verdict = {"agrees": "agrees", "unsure of it": "unsure"}.get(words, "differs")
                assert verdict != "differs" or words.startswith("gives ")
                assert percent.endswith(" %)") or words == "gives no product"
                found[row["query"], row[f"smiles_{k}"]] = verdict
    return found


def by_plan(engines: Engines, results: Sequence[DecodeResult], n: int) -> Verdicts:
    """Of the proposals that may be steps of a route."""
    models = Expander(
        engines["retro"], engines["forward"], settings(n), reagents=engines["reagents"], index=installed(), keep=False
    )
    found = {}
    for result, proposals in zip(results, models.expand([result.smiles for result in results]), strict=True):
        models.run_checks([(result.smiles, proposal) for proposal in proposals])
        for proposal in proposals:
            checked = models.with_checks(result.smiles, proposal)
            reactants = chem.canonical(".".join(proposal.reactants)) or ""
            found[result.query, reactants] = checked.opinion.removeprefix("is ")
    return found


def by_command_line(engines: Engines, results: Sequence[DecodeResult], n: int) -> Verdicts:
    """With models that the command loads itself."""
    words = ["--task", "retro", "-n", str(n), "--drafter", "none", "--threads", "1"]
    queries = [result.query for result in results]
    done = CliRunner().invoke(app, ["predict", *queries, *words, "--review", "--json"])
    assert done.exit_code == 0, done.output
    documents = json.loads(done.stdout.rstrip("\n").split("\n")[-1])["results"]
    return {
        (document["query"], smiles): verdict
        for document in documents
        for smiles, verdict in _of_suggestions(document["review"]["suggestions"])
    }


def by_http(engines: Engines, results: Sequence[DecodeResult], n: int) -> Verdicts:
    with serving({engine.name: engine for engine in engines.values()}) as service:
        queries = [result.query for result in results]
        reviews = service.client().review(queries, task="retro", n=n, distinct=True, drafter="none")
    return {
        (reviewed.result.query, smiles): verdict
        for reviewed in reviews
        for smiles, verdict in _of_suggestions(reviewed.suggestions)
    }


def _of_suggestions(suggestions: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for suggestion in suggestions:
        for item in (suggestion, *suggestion["alternatives"]):
            if item["forward"]:
                yield item["smiles"], item["forward"]["verdict"]


@contextmanager
def visit(engines: Engines) -> Iterator[None]:
    """A visit of the app without a browser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(st, "session_state", {})
        patch.setattr(login, "visitor_id", lambda: "visitor")
        patch.setattr(queued_engine, "model_names", lambda task, **_: [task])
        patch.setattr(queued_engine, "load_engine", lambda name, **_: engines[name])
        yield


WAYS = {
    "library": by_library,
    "Predict": by_predict,
    "Batch": by_batch,
    "Plan": by_plan,
    "command line": by_command_line,
    "HTTP": by_http,
}


def built_in_queries(limit: int) -> list[str]:
    """The first built-in retro queries."""
    from chemspec.asset_files import assets_folder

    return Path(assets_folder(), "examples", "bench_retro.smi").read_text().split()[:limit]
