"""How many passes drafts save with the shipped weights: counters that do not depend on the machine.

Ratios are standard passes over speculative ones on the built-in queries, 200 a task; a change of weights or drafters
that lowers one below its mark is a decision. The answers are the same. Beams, which take minutes on all 200, decode a
part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import pytest
from helpers.small import shipped

from chemspec import asset_files
from chemspec.metrics import speed_numbers
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

MODELS = {"forward": "forward", "retro": "retro-50k"}  # those that the marks were set for
ALL, PART, FEW = 200, 24, 8
FREE = 4096  # the largest node budget: passes as if nodes cost nothing
GREEDY = {"decoder": "greedy", "n": 1, "batch_size": 32, "drafting": "fixed"}
BEAM = {"decoder": "beam", "n": 10, "batch_size": 8, "drafting": "fixed"}
COPY = {"draft_length": 16, "draft_count": 3}
SBS = {"decoder": "sbs", "n": 10, "batch_size": 8}

Answers = Callable[..., list[DecodeResult]]


@pytest.fixture(scope="module")
def answers() -> Answers:
    """Results by task, number of queries (evenly spaced ones) and settings, each worked out once."""

    engine = cache(shipped)

    @cache
    def predict(task: str, count: int, settings: DecodeSettings) -> list[DecodeResult]:
        texts = asset_files.bench_queries(task)  # type: ignore[arg-type]
        assert len(texts) == ALL
        return engine(MODELS[task]).predict(texts[:: ALL // count][:count], settings)

    return lambda task, count, **options: predict(task, count, DecodeSettings(**options))


def passes(results: Sequence[DecodeResult]) -> int:
    return sum(len(result.trace.passes) for result in results)


def saved(standard: Sequence[DecodeResult], fast: Sequence[DecodeResult]) -> float:
    """Return the ratio of their passes, once the compiled kernel's answers and scores are the same."""
    if "to the last bit" in standard[0].trace.settings["exactness"]:
        assert [result.hypotheses for result in fast] == [result.hypotheses for result in standard]
    return passes(standard) / passes(fast)


@pytest.mark.parametrize(
    ("task", "drafter", "options", "least"),
    [
        ("forward", "mixed", {}, 7.5),
        ("retro", "mixed", {}, 9.0),
        pytest.param("forward", "copy", COPY, 5.0, marks=pytest.mark.nightly),
        pytest.param("retro", "copy", COPY, 4.0, marks=pytest.mark.nightly),
    ],
)
def test_greedy(answers: Answers, task: str, drafter: str, options: dict[str, int], least: float) -> None:
    """Without drafts a token is a pass, which a part of the queries shows; so all need no decoding without drafts."""
    standard = answers(task, PART, drafter="none", **GREEDY)
    assert speed_numbers([item.trace for item in standard]).tokens_per_pass == 1
    fast = answers(task, ALL, drafter=drafter, **GREEDY, **options)
    assert saved(standard, fast[:: ALL // PART][:PART]) > 1
    assert speed_numbers([item.trace for item in fast]).tokens_per_pass >= least


@pytest.mark.parametrize("count", [FEW, pytest.param(PART, marks=pytest.mark.nightly)])
def test_exact_beams_of_ten_with_free_nodes(answers: Answers, count: int) -> None:
    standard = answers("retro", count, drafter="none", **BEAM)
    for drafter, least in (("copy", 3.0), ("mixed", 4.7)):
        fast = answers("retro", count, drafter=drafter, node_budget=FREE, **BEAM)
        assert saved(standard, fast) >= least


@pytest.mark.parametrize("count", [FEW, pytest.param(PART, marks=pytest.mark.nightly)])
def test_speculative_beam_search_of_ten(answers: Answers, count: int) -> None:
    """Relaxed: its passes are compared with those of the standard beam search, its answers are its own."""
    standard = answers("retro", count, drafter="none", **BEAM)
    assert passes(standard) / passes(answers("retro", count, drafter="mixed", **SBS)) >= 5.0


def test_batches_do_not_change_the_counts(answers: Answers) -> None:
    """What makes it right to count passes in batches."""
    for options in ({**GREEDY, "drafter": "mixed"}, {**SBS, "drafter": "mixed"}):
        alone = answers("retro", 8, **{**options, "batch_size": 1})
        together = answers("retro", 8, **{**options, "batch_size": 8})
        counts = [[len(item.trace.passes) for item in results] for results in (alone, together)]
        assert counts[0] == counts[1]
