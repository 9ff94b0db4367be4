"""A list that needs a wider beam is the one that the wide beam alone gives, and costs what is new in that beam."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.compilers import needs_compiler
from helpers.small import QUERIES
from helpers.thinned import NIGHTLY

from chemspec.asset_files import bench_queries
from chemspec.decode.decoding import Decoding
from chemspec.engine import distinct
from chemspec.engine.engine import Engine, installed_models
from chemspec.settings import RULES, DecodeSettings
from chemspec.types import DecodeResult, Pass

HOW = DecodeSettings(n=4, distinct=True, max_len=30)


def searches(result: DecodeResult) -> list[DecodeResult]:
    assert result.distinct is not None
    return [*result.distinct.earlier, result]


def computed(results: Iterable[DecodeResult]) -> int:
    return sum(step.computed for result in results for step in result.trace.passes)


def from_scratch(engine: Engine, result: DecodeResult, how: DecodeSettings) -> list[DecodeResult]:
    """Search anew at every width of a list."""
    assert result.distinct is not None
    plain = replace(how, distinct=False)
    return [engine.predict(result.query, replace(plain, n=width)) for width in result.distinct.widths]


def check(engine: Engine, results: Sequence[DecodeResult], how: DecodeSettings) -> None:
    """Every search gave the answers that it gives alone, with the same bits, and so did the list."""
    for result in results:
        alone = from_scratch(engine, result, how)
        narrower = [(one.hypotheses, one.query, one.status) for one in searches(result)[:-1]]
        assert narrower == [(one.hypotheses, one.query, one.status) for one in alone[:-1]]
        chosen = distinct.select_result(alone, engine.prepare(result.query).smiles, engine.task, how)
        assert (result.hypotheses, result.distinct, result.notes) == (chosen.hypotheses, chosen.distinct, chosen.notes)


def fewer_nodes(engine: Engine, results: Sequence[DecodeResult], how: DecodeSettings) -> tuple[int, int]:
    """Return the nodes that the searches computed together and from scratch, of the lists that were searched wider."""
    wider = [result for result in results if result.distinct and result.distinct.earlier]
    assert wider
    together = sum(computed(searches(result)) for result in wider)
    return together, sum(computed(from_scratch(engine, result, how)) for result in wider)


def forced(compiled: bool) -> Callable[..., Decoding]:
    return lambda *given: Decoding(*given[:-1], replace(given[-1], compiled=compiled))


DRAFTERS_OF_LISTS = ("none", "mixed", "windows", "auto")
LOOPS = [
    *(pytest.param(drafter, size, True, marks=needs_compiler) for drafter in DRAFTERS_OF_LISTS for size in (1, 3)),
    ("none", 3, False),
    ("windows", 1, False),
    # The loop in Python takes seconds for each; all drafters, in both loops, are compared in test_compiled_loop.py.
    *(pytest.param(drafter, size, False, marks=NIGHTLY) for drafter in ("mixed", "auto") for size in (1, 3)),
    pytest.param("none", 1, False, marks=NIGHTLY),
    pytest.param("windows", 3, False, marks=NIGHTLY),
]


@pytest.mark.parametrize(("drafter", "batch_size", "compiled"), LOOPS)
def test_lists_are_those_of_the_wide_beams_alone(
    drafter: str, batch_size: int, compiled: bool, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chemspec.decode.generate.Decoding", forced(compiled))
    how = replace(HOW, drafter=drafter, batch_size=batch_size)
    results = engine.predict(QUERIES, how)
    assert any(result.distinct and len(result.distinct.widths) == 3 for result in results)
    check(engine, results, how)
    for result in results:
        first, *others = searches(result)
        assert first.trace.standard_cost is None
        for one in others:
            assert one.trace.standard_cost is not None and len(one.trace.passes) <= one.trace.standard_cost.standard
    if drafter == "none":
        together, apart = fewer_nodes(engine, results, how)
        assert together < apart


@pytest.mark.parametrize("rules", RULES[1:])
def test_beams_by_the_rules_of_others_go_on_too(rules: str, engine: Engine) -> None:
    how = replace(HOW, rules=rules, drafter="none")
    results = engine.predict(QUERIES[:3], how)
    check(engine, results, how)
    together, apart = fewer_nodes(engine, results, how)
    assert together < apart


def test_a_stream_has_the_passes_of_all_searches(engine: Engine) -> None:
    for query in QUERIES[:3]:
        *passes, streamed = engine.stream(query, HOW, record=True)
        assert isinstance(streamed, DecodeResult) and all(isinstance(one, Pass) for one in passes)
        assert passes == [step for one in searches(streamed) for step in one.trace.passes]
        assert streamed.hypotheses == engine.predict(query, HOW).hypotheses
        for one in searches(streamed):  # each trace has the whole tree that its numbers mean
            grown = [step.grown for step in one.trace.passes if step.grown is not None]
            assert not grown or grown[0].parents[0] == -1


def test_with_spellings_every_search_starts_anew(engine: Engine) -> None:
    how = replace(HOW, augment=2)
    results = engine.predict(QUERIES[:3], how)
    check(engine, results, how)
    assert any(result.distinct and result.distinct.earlier for result in results)
    assert not any(search.trace.standard_cost for result in results for search in searches(result))


class Faltering:
    """A backend that has no memory for the passes of wide beams of more than one query."""

    def __init__(self, backend: Any) -> None:
        self.backend, self.failed = backend, 0

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Any:
        runner = self.backend.open(sources, top_k=top_k)
        run = runner.run

        def checked(nodes: Any) -> Any:
            if len(set(nodes.queries)) > 1 and len(nodes.tokens) > 10:
                self.failed += 1
                raise MemoryError
            return run(nodes)

        runner.run = checked
        return runner


def test_where_memory_ends_in_a_wider_search_the_lists_are_the_same(tiny_retro: Path) -> None:
    engine = Engine.load(tiny_retro, threads=1, runtime="torch")
    faltering = Faltering(engine.backend)
    done: list[int] = []
    how = replace(HOW, drafter="none", batch_size=4)
    found = replace(engine, backend=faltering).predict(QUERIES, how, progress=done.append)
    assert faltering.failed and done == sorted(done) and done[-1] == len(QUERIES)
    for one, other in zip(found, engine.predict(QUERIES, how), strict=True):
        assert [answer.smiles for answer in one.hypotheses] == [answer.smiles for answer in other.hypotheses]
        assert one.distinct and other.distinct and one.distinct.widths == other.distinct.widths


@pytest.mark.weights
@pytest.mark.skipif(not {"forward", "retro"} <= {one.name for one in installed_models()}, reason="no models")
@pytest.mark.parametrize("count", [4, pytest.param(12, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("drafter", ["none", "auto"])
@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize("task", ["forward", "retro"])
def test_lists_of_the_shipped_models_are_those_of_the_wide_beams_alone(
    task: Any, n: int, drafter: str, count: int
) -> None:
    engine, how = Engine.load(task, threads=2), DecodeSettings(n=n, distinct=True, drafter=drafter)
    results = engine.predict(list(bench_queries(task)[:count]), how)
    check(engine, results, how)
    if drafter == "none":  # how many more are drafted is a matter of what a pass costs here
        together, apart = fewer_nodes(engine, results, how)
        assert together < apart
