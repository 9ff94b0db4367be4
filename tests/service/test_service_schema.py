"""What the OpenAPI document promises is what the service does."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import fields, replace
from html import escape
from pathlib import Path

import pytest
from helpers.paths import ROOT
from helpers.serving import Running, serving

from chemspec import chem, precedents
from chemspec.client import RequestOptions
from chemspec.engine.engine import Engine
from chemspec.review import StepChecker, review_document, review_result
from chemspec.settings import DecodeSettings
from chemspec.stock.lists import BUILT_IN, load_stock
from chemspec.stock.offers import Offer, inchikey
from chemspec.types import DecodeResult, Hypothesis

pytest.importorskip("fastapi")

from chemspec.service.review_schema import Review

SCHEMATHESIS = os.environ.get("CHEMSPEC_SCHEMATHESIS", "")


def test_the_document_names_every_route_and_every_refusal(running: Running) -> None:
    status, document, _ = running.send("GET", "/openapi.json")
    assert status == 200
    routes = ["predict", "review", "check", "names", "models", "stock", "plan", "plan/{id}", "plan/{id}/events"]
    probes = {"/healthz", "/readyz", "/metrics"}
    assert set(document["paths"]) == {*(f"/v1/{name}" for name in routes), "/predictions/{model}", *probes}, (
        "a route is also named in assets/docs/service.md and in BODIES or OTHERS of tests/programs/fuzzing/http.py"
    )
    refusals = document["paths"]["/v1/predict"]["post"]["responses"]
    assert {"400", "401", "404", "413", "422", "429", "503", "504"} < set(refusals)
    problem = {"$ref": "#/components/schemas/Problem"}
    assert all(
        one["content"]["application/json"]["schema"] == problem for code, one in refusals.items() if code != "200"
    )


def test_the_guide_names_the_fields_that_are_no_settings_and_those_that_are_missing(running: Running) -> None:
    document = running.send("GET", "/openapi.json")[1]
    taken = set(document["components"]["schemas"]["PredictQuestion"]["properties"])
    (row,) = re.findall(r"`POST /v1/predict`.*", (ROOT / "assets/docs/service.md").read_text(encoding="utf-8"))
    assert taken ^ {field.name for field in fields(DecodeSettings)} == {*re.findall(r"`(\w+)`", row), "queries"}


def test_a_review_is_typed_to_its_last_field() -> None:
    """Every field of a review is in the schema, and comes back from it unchanged."""
    answers = ["CC(=O)Cl.Nc1ccc(O)cc1", "CC(=O)OC(C)=O.Nc1ccc(O)cc1", "CC(=O)[O-].[Na+].Nc1ccc(O)cc1"]
    hypotheses = [_answer(one, 0.5 / (k + 1)) for k, one in enumerate(answers)]
    retro = DecodeResult("CC(=O)Nc1ccc(O)cc1", "ok", "", hypotheses=tuple(hypotheses))
    checker = StepChecker(_Fixed("CC(=O)Nc1ccc(O)cc1"), None, precedents.installed())
    stock = replace(load_stock(BUILT_IN), offers={inchikey("CC(=O)Cl"): Offer(12.5, "EUR/g", "Someone")})
    ring = ["COc1ccc(Br)cc1", "COc1ccccc1Br"]
    products = [_answer(one, 0.5 - 0.2 * k) for k, one in enumerate(ring)]
    forward = DecodeResult("COc1ccccc1.BrBr", "ok", "", hypotheses=tuple(products))
    for task, result in (("retro", retro), ("forward", forward)):
        written = review_document(review_result(task, result, checker, stock=stock))
        document = json.loads(json.dumps(written))
        assert Review.model_validate(document, strict=True).model_dump(by_alias=True) == document
        first = document["suggestions"][0]
        if task == "retro":
            assert first["precedents"]["nearest"]
            assert first["forward"]["verdict"] == "agrees" and first["alternatives"]
            assert first["stock"][0] == {
                "smiles": "CC(=O)Cl", "list": "common", "title": "common chemicals", "price": 12.5, "unit": "EUR/g",
                "supplier": "Someone",
                "intermediate": False, "shelf": "",
            }  # fmt: skip
            assert not set("●○◐") & set(json.dumps(document, ensure_ascii=False)), "no typography"
        else:
            assert document["selectivity"][0]["sites"]


def _answer(smiles: str, p: float) -> Hypothesis:
    return Hypothesis(smiles, chem.canonical(smiles) or "", True, (), (), math.log(p), p, p)


class _Fixed:
    """A model with one answer."""

    def __init__(self, answer: str) -> None:
        self._hypothesis = _answer(answer, 0.9)

    def predict(self, queries: Sequence[str], _: DecodeSettings) -> list[DecodeResult]:
        return [DecodeResult(query, "ok", "", hypotheses=(self._hypothesis,)) for query in queries]


def test_every_request_has_an_example_that_is_answered(running: Running) -> None:
    document = running.send("GET", "/openapi.json")[1]
    for path, methods in document["paths"].items():
        if body := methods.get("post", {}).get("requestBody"):
            name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            (example,) = document["components"]["schemas"][name]["examples"]
            status, answer, _ = running.send("POST", path.replace("{model}", "retro"), example)
            assert status in (200, 202), (path, answer)


def test_a_method_that_a_path_has_not_is_answered_with_all_that_it_has(running: Running) -> None:
    status, problem, headers = running.send("PUT", "/v1/plan/nobody", {})
    assert (status, problem["code"], headers["allow"]) == (405, "method", "DELETE, GET")


def test_the_options_of_the_client_are_the_fields_of_the_service(running: Running) -> None:
    schemas = running.send("GET", "/openapi.json")[1]["components"]["schemas"]
    fields_of = {*schemas["PredictQuestion"]["properties"], *schemas["ReviewQuestion"]["properties"]}
    assert {*RequestOptions.__annotations__} == fields_of - {"queries"}


@pytest.mark.parametrize("keys", [frozenset(), frozenset({"secret"})])
def test_both_ways_to_send_a_key_are_in_the_document(engines: dict[str, Engine], keys: frozenset[str]) -> None:
    with serving(engines, api_keys=keys) as service:
        document = service.send("GET", "/openapi.json")[1]
    assert {one["type"] for one in document["components"]["securitySchemes"].values()} == {"apiKey", "http"}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            ways = [] if path in ("/healthz", "/readyz", "/metrics") else [{"key": []}, {"bearer": []}]
            assert operation.get("security", []) == ways + ([{}] if ways and not keys else []), path


def test_the_page_of_the_document_names_every_route_and_loads_nothing(running: Running) -> None:
    status, page, headers = running.send("GET", "/docs")
    assert status == 200 and "default-src 'none'" in headers["content-security-policy"]
    assert not re.findall(r"<script|<link|<img|@import|url\(|https?://", page)
    document = running.send("GET", "/openapi.json")[1]
    for path in document["paths"]:
        assert escape(path) in page
    for name, schema in document["components"]["schemas"].items():
        assert f'id="of-{name}"' in page
        assert all(f"<code>{field}</code>" in page for field in schema.get("properties", ()))


@pytest.mark.slow  # some thousand requests
@pytest.mark.skipif(not SCHEMATHESIS, reason="CHEMSPEC_SCHEMATHESIS names no program of that name")
def test_schemathesis_finds_nothing(engines: dict[str, Engine], tmp_path: Path) -> None:
    # Some values fit their fields and not each other (a relaxed decoder where exactness is wanted): 422 is right.
    options = ["--exclude-checks", "positive_data_acceptance"]
    # A case may ask for an answer within less time than any takes: 504 is right.
    (tmp_path / "schemathesis.toml").write_text(
        'checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 504]\n'
    )
    environment = {"PATH": os.environ["PATH"], "HOME": "/tmp"}
    with serving(engines, body=100_000_000) as service:  # it does not know that a body may be too large
        words = [SCHEMATHESIS, "run", f"{service.url}/openapi.json", "--max-examples=25", "--seed=1", "--no-color"]
        done = subprocess.run([*words, *options], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_fields_with_few_values_list_them(running: Running) -> None:
    question = running.client().request("GET", "/openapi.json")["components"]["schemas"]["PredictQuestion"]
    properties = question["properties"]
    assert "copy" in properties["drafter"]["enum"] and "enum" not in properties["max_len"]
