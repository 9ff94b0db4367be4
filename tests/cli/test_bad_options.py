"""Options at and beyond their limits, and queries that are next to nothing: right answers, or a message that helps."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from campaigns.comparison import judge, naive, written

from chemspec.draft.registry import DRAFTERS, Copy, Mixed, Smart, Windows
from chemspec.draft.tree.edit_ngrams import COPY_ONLY
from chemspec.engine.engine import Engine, installed_models, usable_drafters
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.types import FinishedSequence

QUERIES = ("C", "O", "CCO", "CC(=O)OCC")  # of 1, 1, 3 and 9 tokens: shorter than any draft
SHORT = {"max_len": 12}
GREEDY = {"decoder": "greedy", "n": 1}
BEAM = {"decoder": "beam", "n": 3}
WIDE = {"decoder": "beam", "n": 220, "max_len": 3}  # the vocabulary has 187 tokens


@cache
def retro() -> tuple[Engine, Transformer]:
    if "retro" not in {folder.name for folder in installed_models()}:
        pytest.skip("no retro model in assets/models")
    engine = Engine.load("retro", threads=1)
    assert engine.config.vocab_size < WIDE["n"]  # type: ignore[operator]
    return engine, checkpoint.load(engine.folder).model


@cache
def expected(query: str, decoder: str, n: int, max_len: int) -> list[FinishedSequence]:
    engine, model = retro()
    how = DecodeSettings(decoder=decoder, n=n, max_len=max_len)
    return naive(model, engine.prepare(query).ids, how)


def refused(drafter: str, options: dict[str, Any]) -> str:
    """What the message says where a learned drafter cannot be had, or not with drafts of 1,000 tokens; else nothing."""
    engine, _ = retro()
    if drafter not in usable_drafters(engine.folder):
        return "chemspec train"
    return "draft length 1000" if DRAFTERS[drafter].companions and options.get("draft_length") == 1000 else ""


def check(**options: Any) -> None:
    """All queries, together and alone, are answered as the naive decoder answers them."""
    if says := refused(options["drafter"], options):
        with pytest.raises(ValueError, match=says):
            retro()[0].predict(QUERIES, DecodeSettings(**{**SHORT, **options}))
        return
    how = DecodeSettings(**{**SHORT, **options})
    engine, model = retro()
    for batch in (1, len(QUERIES)):
        settings = DecodeSettings(**{**SHORT, **options}, batch_size=batch)
        for query, result in zip(QUERIES, engine.predict(QUERIES, settings), strict=True):
            assert result.status == "ok", result.message
            source = engine.prepare(query).ids
            truth = expected(query, how.decoder, how.n, how.max_len)
            verdict = judge(model, source, truth, written(engine, result), how)
            assert verdict.fine, (query, options)


@pytest.mark.weights
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize(
    "options",
    [
        {},  # drafts longer than the query
        {"draft_length": 1000},
        {"draft_length": 1, "draft_count": 1},
        {"draft_count": 1000},
        {"node_budget": 0},
        {"node_budget": 1},
        {"node_budget": 4096},
        {"max_len": 1},
        {"max_len": 2, "draft_length": 5},
    ],
    ids=str,
)
def test_right_answers(drafter: str, options: dict[str, int]) -> None:
    check(drafter=drafter, **GREEDY, **options)
    check(drafter=drafter, **BEAM, **options)


@pytest.mark.weights
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_beams_wider_than_the_vocabulary(drafter: str) -> None:
    check(drafter=drafter, **WIDE)
    check(drafter=drafter, **WIDE, node_budget=1)


@pytest.mark.weights
def test_one_token_answers_are_as_many_as_the_vocabulary_has_tokens() -> None:
    engine, _ = retro()
    n = 1000
    (result,) = engine.predict(["CCO"], DecodeSettings(n=n, max_len=1, drafter="copy"))
    assert len(result.hypotheses) == engine.config.vocab_size
    # Their texts do not tell bos and pad apart, which are among them.
    wanted = [item.log_prob for item in expected("CCO", "beam", n, 1)]
    assert [item.log_prob for item in result.hypotheses] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.weights
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_speculative_beam_search_answers_at_the_limits(drafter: str) -> None:
    engine, _ = retro()
    for options in ({"n": 100, "max_len": 2}, {"max_len": 1}, {"draft_length": 1000}, {}):
        settings = DecodeSettings(**{"decoder": "sbs", "n": 3, "drafter": drafter, **SHORT, **options})  # type: ignore[arg-type]
        if says := refused(drafter, options):
            with pytest.raises(ValueError, match=says):
                engine.predict(QUERIES, settings)
            continue
        for result in engine.predict(QUERIES, settings):
            assert result.status == "ok"
            assert result.hypotheses
            totals = [item.log_prob for item in result.hypotheses]
            assert totals == sorted(totals, reverse=True)
            assert all(len(item.token_log_probs) <= settings.max_len for item in result.hypotheses)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("draft_length", -1, "between 0 and 1000"),
        ("draft_length", 1001, "between 0 and 1000"),
        ("draft_length", 2.5, "whole number"),
        ("draft_count", -1, "between 0 and 1000"),
        ("draft_count", 1001, "between 0 and 1000"),
        ("dilation", -1, "between 0 and 1000"),
        ("node_budget", -1, "between 0 and 4096"),
        ("node_budget", 4097, "between 0 and 4096"),
        ("n", 0, "between 1 and 1000"),
        ("n", 1001, "between 1 and 1000"),
        ("n", float("nan"), "whole number"),
        ("max_len", 0, "between 1 and 1000"),
        ("max_len", "20", "whole number"),
        ("batch_size", 0, "between 1 and 4096"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(name: str, value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is .*{says}"):
        DecodeSettings(**{name: value})


@pytest.mark.parametrize("make", [Windows, Smart, Copy, lambda **size: Mixed(COPY_ONLY, **size)])
def test_drafters_refuse_drafts_of_no_length_and_no_drafts(make: Any) -> None:
    """In the settings 0 leaves the size to the drafter; a drafter that is told 0 says what to do instead."""
    with pytest.raises(ValueError, match="draft length 0; it must be at least 1"):
        make(length=0)
    with pytest.raises(ValueError, match=r"0 drafts; .* choose the drafter none"):
        make(count=0)
