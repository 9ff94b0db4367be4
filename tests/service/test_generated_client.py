"""A client that openapi-python-client generates from the OpenAPI document, used as its authors would."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

import pytest
from helpers.serving import serving

from chemspec.engine.engine import Engine

pytest.importorskip("fastapi")
pytest.importorskip("syntheseus")
GENERATOR = os.environ.get("CHEMSPEC_OPENAPI_CLIENT", "")
SCRIPT = """
import sys, time
from chemspec_client import AuthenticatedClient, Client
from chemspec_client.api.models import models
from chemspec_client.api.plan import plan, plan_state, stop_plan
from chemspec_client.api.predict import check, predict, review
from chemspec_client.api.stock import stock
from chemspec_client.api.texts import names
from chemspec_client.models import (
    CheckQuestion, NamesQuestion, PlanQuestion, PlanAnswerState, PredictQuestion, PredictQuestionTaskType0 as Task,
    Problem, ResultStatus, ReviewQuestion, ReviewQuestionTaskType0 as ReviewTask,
)

url = sys.argv[1]
for way in ({}, {"prefix": "", "auth_header_name": "X-API-Key"}):  # as a bearer, and by the header of its own
    client = AuthenticatedClient(base_url=url, token="secret", **way)
    assert [one.name for one in models.sync(client=client).models] == ["forward", "retro"]
refused = predict.sync(client=Client(base_url=url), body=PredictQuestion(queries="CCO", task=Task.RETRO))
assert isinstance(refused, Problem) and refused.code == "key", refused

question = PredictQuestion(queries=["CCO", "CC("], task=Task.RETRO, n=3, max_len=12, distinct=False)
answer = predict.sync(client=client, body=question)
first, second = answer.results
assert first.status is ResultStatus.OK and 0 <= first.hypotheses[0].probability <= 1 and len(first.hypotheses) <= 3
assert second.status is ResultStatus.INVALID and "never closed" in second.message and second.hypotheses == []
problem = predict.sync(client=client, body=PredictQuestion(queries="CCO", model="nobody"))
assert isinstance(problem, Problem) and problem.code == "unknown_model"

question = ReviewQuestion(queries="CCO", task=ReviewTask.RETRO, n=3, max_len=12, distinct=False)
(result,) = review.sync(client=client, body=question).results
assert result.review.suggestions
assert result.review.smiles == "CCO"
for suggestion in result.review.suggestions:
    assert suggestion.rank >= 1 and isinstance(suggestion.class_, str) and isinstance(suggestion.problems, list)
    for bought in filter(None, suggestion.stock):
        assert isinstance(bought.list_, str) and isinstance(bought.smiles, str)

read = names.sync(client=client, body=NamesQuestion(texts=["aspirin", "C1CC"])).results
assert read[0].smiles == "CC(=O)Oc1ccccc1C(=O)O" and read[0].fault is None and read[1].fault.kind == "ring"
verdict = check.sync(client=client, body=CheckQuestion(reaction="CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1", model="forward"))
assert isinstance(verdict.agrees, bool) and verdict.sentence
assert [one.name for one in stock.sync(client=client).lists if one.built_in][0] == "common"

job = plan.sync(client=client, body=PlanQuestion(target="CCO", expansions=2, check=False))
while job.state in (PlanAnswerState.WAITING, PlanAnswerState.RUNNING):
    time.sleep(0.05)
    job = plan_state.sync(job.id, client=client)
assert job.state is PlanAnswerState.DONE and job.plan.target == "CCO" and job.plan.target_in_stock.startswith("common")
for route in job.plan.routes:
    assert route.type_ == "mol" and route.scores.steps >= 0 and isinstance(route.title, str)
assert stop_plan.sync(job.id, client=client).id == job.id
assert plan_state.sync(job.id, client=client).code == "unknown_plan"
print("all as expected")
"""


@pytest.mark.slow  # writes a client and runs it
@pytest.mark.skipif(not GENERATOR, reason="CHEMSPEC_OPENAPI_CLIENT names no program of that name")
def test_a_generated_client_speaks_with_the_service(engines: dict[str, Engine], tmp_path: Path) -> None:
    programs = Path(GENERATOR).parent
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    with serving(engines, api_keys=frozenset({"secret"})) as service:
        run = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True, env=environment)
        words = ["--url", f"{service.url}/openapi.json", "--meta", "none", "--output-path", "chemspec_client"]
        made = run([GENERATOR, "generate", "--fail-on-warning", *words])
        assert made.returncode == 0, made.stdout + made.stderr
        (tmp_path / "script.py").write_text(SCRIPT)
        ran = run([programs / "python", "script.py", service.url])
    assert ran.returncode == 0 and "all as expected" in ran.stdout, ran.stdout + ran.stderr
