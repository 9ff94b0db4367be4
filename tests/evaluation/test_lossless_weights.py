"""With real weights in fp32, the engine returns what a decoder without cache, batches and drafts returns.

Two programs that add in different orders differ in the last bits, and where two texts are as good as equal, the last
bits decide: `programs.comparison` excuses what is provably a tie. Options at and beyond their limits are included.
"""

from __future__ import annotations

from typing import Any

import pytest
from helpers.small import accept_too_much, shipped
from programs.comparison import check

from chemspec import asset_files
from chemspec.engine.engine import Engine, usable_drafters
from chemspec.plugins import DRAFTERS
from chemspec.settings import DecodeSettings

DRAFTED = ("none", "copy", "mixed", "auto")
GREEDY = {"decoder": "greedy", "n": 1, "batch_size": 8}
BEAM = {"decoder": "beam", "n": 5, "batch_size": 3}
WIDE = {"decoder": "beam", "n": 220, "max_len": 3}  # the vocabulary has 187 tokens
TINY = ("C", "O", "CCO", "CC(=O)OCC")  # of 1, 1, 3 and 9 tokens: shorter than any draft


@pytest.fixture(scope="module", params=["forward", "retro"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return shipped(request.param, dtype="fp32")


@pytest.fixture(scope="module")
def retro() -> Engine:
    return shipped("retro", dtype="fp32")


def built_in(engine: Engine, count: int) -> list[str]:
    """Evenly spaced built-in queries, the shortest first."""
    texts = asset_files.bench_queries(engine.task)
    return sorted(texts[:: len(texts) // count][:count], key=len)


def compare(engine: Engine, queries: Any, drafters: Any, **options: Any) -> None:
    """Fail unless all drafters lead to the answers of the naive decoder, ties excepted, which are few."""
    ties = 0
    for batch in check(engine, queries, DecodeSettings(**options), drafters):
        for drafter, verdicts in batch.verdicts.items():
            for query, verdict in zip(batch.queries, verdicts, strict=True):
                assert verdict.fine, (drafter, query, verdict)
                ties += not verdict.same
    assert ties <= len(queries) * len(drafters) // 10


@pytest.mark.parametrize(
    ("greedy", "beams"), [(8, 2), pytest.param(40, 6, marks=pytest.mark.nightly)], ids=["some", "many"]
)
def test_answers_are_those_of_the_decoder_without_cache(engine: Engine, greedy: int, beams: int) -> None:
    compare(engine, built_in(engine, greedy), DRAFTED, **GREEDY)
    compare(engine, built_in(engine, 60)[5 : 5 + 30 : 30 // beams], DRAFTED, **BEAM)


@pytest.mark.parametrize("how", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_the_check_notices_a_lossy_rule(engine: Engine, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    accept_too_much(monkeypatch)
    with pytest.raises(AssertionError):
        compare(engine, built_in(engine, 60)[:4], ["copy"], **how)


@pytest.mark.parametrize(
    "options",
    [
        {},  # drafts longer than the query
        {"draft_length": 1000},
        {"node_budget": 1},
        {"max_len": 2, "draft_length": 5},
        *(
            pytest.param(options, marks=pytest.mark.nightly)
            for options in (
                {"draft_length": 1, "draft_count": 1},
                {"draft_count": 1000},
                {"node_budget": 0},
                {"node_budget": 4096},
                {"max_len": 1},
            )
        ),
    ],
    ids=str,
)
def test_options_at_their_limits(retro: Engine, options: dict[str, Any]) -> None:
    """Drafters with a model of their own draft less than 1,000 tokens; speculative beam search answers in order."""
    drafters = [
        name
        for name in usable_drafters(retro.folder)
        if options.get("draft_length") != 1000 or not DRAFTERS[name].companions
    ]
    for how in (GREEDY, {**BEAM, "n": 3}):
        compare(retro, TINY, drafters, **{"max_len": 12, **how, **options})
    for drafter in drafters:
        settings = DecodeSettings(**{"decoder": "sbs", "n": 3, "max_len": 12, "drafter": drafter, **options})
        for result in retro.predict(TINY, settings):
            totals = [item.log_prob for item in result.hypotheses]
            assert totals and totals == sorted(totals, reverse=True)
            assert all(len(item.token_log_probs) <= settings.max_len for item in result.hypotheses)


def test_beams_wider_than_the_vocabulary(retro: Engine) -> None:
    compare(retro, TINY[-1:], usable_drafters(retro.folder), **WIDE)
    compare(retro, TINY[:-1], DRAFTED, **WIDE)
    compare(retro, TINY[-1:], DRAFTED, **WIDE, node_budget=1)
    result = retro.predict("CCO", DecodeSettings(n=1000, max_len=1, drafter="copy"))
    assert len(result.hypotheses) == retro.config.vocab_size < WIDE["n"]  # type: ignore[operator]
