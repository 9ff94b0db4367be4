"""What a service answers is what its engine answers, whoever else asks."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from helpers.case_tables import table
from helpers.serving import Gated, Running, serving, start, until
from helpers.small import BAD, QUERIES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chemspec.client import Result, ServiceError
from chemspec.decode.compiled import loop as compiled_loop
from chemspec.engine.engine import Engine
from chemspec.io.writers import result_document

pytest.importorskip("fastapi")

HOW = [
    {"n": 1, "max_len": 30},
    {"n": 4, "max_len": 30},
    {"n": 3, "max_len": 30, "decoder": "sample", "seed": 7},
    {"n": 3, "max_len": 30, "augment": 3},
    {"n": 3, "max_len": 30, "distinct": True},
    {"n": 3, "max_len": 20, "drafter": "windows", "decoder": "beam", "length_penalty": 0.5},
]


def expected(engine: Engine, queries: Sequence[str], how: dict[str, Any]) -> list[dict[str, Any]]:
    """What the engine says itself, without its times."""
    decoder = how.get("decoder", "greedy" if how["n"] == 1 else "beam")
    return [plain(result_document(result)) for result in engine.predict(queries, **{**how, "decoder": decoder})]


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """A result without what a batch may change: the time, and how many passes its drafts saved."""
    return {name: value for name, value in document.items() if name not in ("seconds", "passes", "tokens")}


@pytest.mark.parametrize("how", HOW, ids=lambda how: "-".join(map(str, how.values())))
@pytest.mark.parametrize("task", ["retro", "forward"])
def test_the_answers_are_those_of_the_engine(
    running: Running, engines: dict[str, Engine], task: str, how: dict[str, Any]
) -> None:
    status, document, _ = running.send("POST", "/v1/predict", {"queries": QUERIES, "task": task, **how})
    assert status == 200, document
    assert [plain(one) for one in document["results"]] == expected(engines[task], QUERIES, how)
    assert (document["model"], document["digest"]) == (task, engines[task].full_digest)


@given(st.lists(st.sampled_from([*QUERIES, *BAD]), min_size=1, max_size=12))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_bad_query_never_harms_the_others(running: Running, engines: dict[str, Engine], queries: list[str]) -> None:
    how = {"n": 2, "max_len": 12}
    status, document, _ = running.send("POST", "/v1/predict", {"queries": queries, "task": "retro", **how})
    assert status == 200
    assert [plain(one) for one in document["results"]] == expected(engines["retro"], queries, how)
    assert [one["status"] for one in document["results"]] == [BAD.get(query, "ok") for query in queries]


def test_a_query_that_breaks_the_model_does_not_harm_its_batch(engines: dict[str, Engine]) -> None:
    gated = Gated(engines["retro"])
    gated.break_over = "CCO"
    gated.gate.set()
    with serving({"retro": gated}) as service:
        results = service.client().predict(QUERIES, task="retro", n=2, max_len=12)
    assert [result.status for result in results] == ["failed" if query == "CCO" else "ok" for query in QUERIES]
    assert "broken" in results[QUERIES.index("CCO")].message
    assert len(gated.batches[0]) == len(QUERIES)


def test_what_waits_joins_a_batch_that_is_being_decoded(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pass by pass and without drafts: or else the first query may be answered before others can join.
    monkeypatch.setattr(compiled_loop, "MAX_NATIVE_SECONDS", 0.0)
    gated = Gated(engines["retro"])
    found: dict[str, Result] = {}
    with serving({"retro": gated}, batch_size=3) as service:

        def ask(query: str, n: int = 2) -> threading.Thread:
            def run() -> None:
                found[query] = service.client().predict(
                    query, task="retro", n=n, max_len=12, drafter="none", distinct=False
                )

            return start(run)

        threads = [ask("CCO")]
        until(lambda: gated.batches, "the first batch")
        for count, query in enumerate(("CCN", "CC(=O)Nc1ccccc1", "CCCC", "CCF", "CCCl"), 1):
            threads.append(ask(query, 1 if query == "CCF" else 2))
            until(lambda count=count: service.count("queue_queries") == count, "the query")
        gated.gate.set()
        for thread in threads:
            thread.join()
        assert gated.batches[0] == ["CCO"]
        # As far as there is room the oldest joins, and with it those most like it in length that are asked for alike.
        assert gated.batches[1] == ["CCN", "CCCl"]
        joined = [query for batch in gated.batches[2:-1] for query in batch]
        assert sorted(joined) == ["CC(=O)Nc1ccccc1", "CCCC"]
        assert gated.batches[-1] == ["CCF"], "asked for otherwise, so that the others end first"
        # Those that join are of no batch of their own.
        assert service.count("batch_queries_count", model="retro") == 2
        assert service.count("batch_queries_sum", model="retro") == 2
    for query, result in found.items():
        own = engines["retro"].predict(
            query, n=2 if len(result.answers) == 2 else 1, max_len=12, decoder="beam", distinct=False
        )
        assert result.answers[0].smiles == own.hypotheses[0].smiles


# --- models --------------------------------------------------------------------------------------


def test_models_are_told_with_what_they_can(running: Running, engines: dict[str, Engine]) -> None:
    models = {one["name"]: one for one in running.client().models()}
    assert set(models) == set(engines)
    assert models["retro"]["digest"] == engines["retro"].full_digest
    assert "copy" in models["retro"]["drafters"] and "medusa" not in models["retro"]["drafters"]


@pytest.mark.parametrize(("asked", "status", "code", "part"), table("service/refused_questions"))
def test_what_cannot_be_asked_is_refused_with_a_reason(
    running: Running, asked: dict[str, Any], status: int, code: str, part: str
) -> None:
    with pytest.raises(ServiceError) as refused:
        running.client().request("POST", "/v1/predict", {"queries": "CCO", **asked})
    assert (refused.value.status, refused.value.code) == (status, code)
    assert part in str(refused.value)
