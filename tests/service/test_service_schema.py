"""What the OpenAPI document promises is what the service does."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import fields

import pytest
from paths import ROOT
from serving import Running, serving

from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings

pytest.importorskip("fastapi")

SCHEMATHESIS = os.environ.get("CHEMSPEC_SCHEMATHESIS", "")


def test_the_document_names_every_route_and_every_refusal(running: Running) -> None:
    status, document, _ = running.send("GET", "/openapi.json")
    assert status == 200
    routes = ["predict", "review", "check", "names", "models"]
    probes = {"/healthz", "/readyz", "/metrics"}
    assert set(document["paths"]) == {*(f"/v1/{name}" for name in routes), "/predictions/{model}", *probes}, (
        "a route is also named in assets/docs/service.md and in BODIES or OTHERS of tests/campaigns/fuzzing/http.py"
    )
    refusals = document["paths"]["/v1/predict"]["post"]["responses"]
    assert {"400", "401", "404", "413", "422", "429", "503", "504"} < set(refusals)
    problem = {"$ref": "#/components/schemas/Problem"}
    assert all(
        one["content"]["application/json"]["schema"] == problem for code, one in refusals.items() if code != "200"
    )


def test_the_guide_names_the_fields_that_are_no_settings_and_those_that_are_missing(running: Running) -> None:
    document = running.send("GET", "/openapi.json")[1]
    taken = set(document["components"]["schemas"]["Question"]["properties"])
    (row,) = re.findall(r"`POST /v1/predict`.*", (ROOT / "assets/docs/service.md").read_text(encoding="utf-8"))
    assert taken ^ {field.name for field in fields(DecodeSettings)} == {*re.findall(r"`(\w+)`", row), "queries"}


@pytest.mark.slow  # some thousand requests
@pytest.mark.skipif(not SCHEMATHESIS, reason="CHEMSPEC_SCHEMATHESIS names no program of that name")
def test_schemathesis_finds_nothing(engines: dict[str, Engine]) -> None:
    # Some values fit their fields and not each other (a relaxed decoder where exactness is wanted): 422 is right.
    options = ["--exclude-checks", "positive_data_acceptance"]
    environment = {"PATH": os.environ["PATH"], "HOME": "/tmp"}
    with serving(engines, body=100_000_000) as service:  # it does not know that a body may be too large
        words = [SCHEMATHESIS, "run", f"{service.url}/openapi.json", "--max-examples=25", "--seed=1", "--no-color"]
        done = subprocess.run([*words, *options], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
