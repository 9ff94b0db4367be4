"""What drafts saved is a true number: "instead of" is what decoding without drafts takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from helpers.small import QUERIES

from chemspec.engine.engine import Engine
from chemspec.metrics import Savings, count_savings
from chemspec.settings import RULES, DecodeSettings
from chemspec.types import DecodeResult, result_from_json, to_json

WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"decoder": "greedy", "n": 1},
    "beam": {"decoder": "beam", "n": 3},
    "ranked by length": {"decoder": "beam", "n": 3, "length_penalty": 1.0},
    "sample": {"decoder": "sample", "n": 4, "temperature": 2.0},
    "several spellings": {"decoder": "beam", "n": 2, "augment": 3},
    "different answers": {"decoder": "beam", "n": 4, "distinct": True},
    "different answers of several spellings": {"decoder": "beam", "n": 3, "augment": 2, "distinct": True},
    **{rules: {"decoder": "beam", "n": 3, "rules": rules} for rules in RULES[1:]},
}


def check(engine: Engine, queries: list[str], settings: DecodeSettings) -> Savings:
    """Compare what the drafted answers say with a run without drafts, and return the sum of it."""
    drafted = [count_savings(result) for result in engine.predict(queries, settings)]
    plain = [count_savings(result) for result in engine.predict(queries, replace(settings, drafter="none"))]
    assert [saved.standard for saved in drafted] == [saved.passes for saved in plain]
    assert [saved.tokens for saved in drafted] == [saved.tokens for saved in plain]
    assert all((saved.standard, saved.copied, saved.drafted) == (saved.passes, 0, 0) for saved in plain)
    total = sum(drafted[1:], drafted[0])
    assert total.standard == sum(saved.passes for saved in plain)
    return total


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("way", WAYS)
def test_standard_passes_are_those_of_a_run_without_drafts(way: str, batch_size: int, engine: Engine) -> None:
    check(engine, QUERIES, DecodeSettings(drafter="mixed", max_len=30, batch_size=batch_size, **WAYS[way]))


def test_a_list_of_different_answers_counts_all_its_searches(engine: Engine) -> None:
    (result,) = engine_results = engine.predict(["CCO"], n=4, distinct=True, max_len=20, drafter="none")
    assert result.distinct and len(result.distinct.widths) == len(result.distinct.earlier) + 1 == 3
    alone = [engine.predict("CCO", n=width, distinct=False, max_len=20, drafter="none").trace for width in (4, 8, 16)]
    together = [one.trace for one in (*result.distinct.earlier, *engine_results)]
    assert count_savings(result).passes == sum(len(one.passes) for one in together)
    assert count_savings(result).tokens == sum(len(one.passes) for one in alone), "a token for each step, reused or not"
    for one, other in zip(together[1:], alone[1:], strict=True):
        assert len(one.passes) < len(other.passes), "what is known takes no pass"
    again = result_from_json(to_json(result))
    assert again.distinct and count_savings(again) == count_savings(result)


@pytest.mark.parametrize(
    ("decoder", "options"),
    [
        ("sbs", {"n": 2, "drafter": "windows"}),
        ("sampled-beam", {"n": 2, "drafter": "none"}),
        ("speculative-sample", {"n": 2, "drafter": "none"}),
        ("greedy", {"n": 1, "drafter": "copy", "beta": 3}),
    ],
)
def test_where_a_step_may_take_no_pass_nothing_is_claimed(
    decoder: str, options: dict[str, Any], engine: Engine
) -> None:
    result = engine.predict("CCO", decoder=decoder, max_len=20, **options)
    saved = count_savings(result)
    assert saved.standard is None and saved.passes > 0
    if decoder == "greedy":  # of whose answer the tokens are known
        assert saved.tokens == len(result.hypotheses[0].token_log_probs)


def test_a_query_that_was_not_answered_saved_nothing() -> None:
    assert count_savings(DecodeResult("C(", "invalid", "")) == Savings(0, 0, None, 0, 0)
