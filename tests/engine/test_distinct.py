"""Lists of different answers: nothing said twice, nothing useless, and no chance lost or made."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import chemspec
from chemspec import chem
from chemspec.chem.reactions.step_class import classify_step
from chemspec.engine import distinct
from chemspec.engine.engine import installed_models
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis, Trace

AMIDE = "CC(=O)Nc1ccccc1"
weights = pytest.mark.skipif(
    not {"forward", "retro-50k"} <= {one.name for one in installed_models()}, reason="no models"
)


def answer(smiles: str, odds: float, sure: float | None = None) -> Hypothesis:
    canonical = chem.canonical(smiles) or ""
    return Hypothesis(
        smiles,
        canonical,
        bool(canonical),
        tuple(smiles),
        (log(odds),),
        log(odds),
        odds,
        odds if sure is None else sure,
        calibrated=sure is not None,
    )


def searched(*answers: Hypothesis, query: str = AMIDE) -> DecodeResult:
    return DecodeResult(query, "ok", "", answers, Trace((), {"n": len(answers)}, seconds=1.0))


def test_spellings_are_merged_and_their_sums_rank() -> None:
    drawn = answer("CCN", 0.4), answer("CCO", 0.3), answer("OCC", 0.2), answer("C((", 0.1)
    found = distinct.select_result([searched(*drawn)], AMIDE, "retro", DecodeSettings(n=5, distinct=True))
    assert [one.canonical for one in found.hypotheses] == ["CCO", "CCN"]
    assert found.hypotheses[0].probability == pytest.approx(0.5)
    assert exp(found.hypotheses[0].log_prob) == pytest.approx(0.5)
    assert found.distinct and found.distinct.merged == 1
    assert [one.smiles for one in found.distinct.omitted] == ["C(("]


@pytest.mark.parametrize(
    ("task", "query", "text", "echo"),
    [
        ("retro", "C[C@H](O)CC", "C[C@H](O)CC", True),
        ("retro", "C[C@H](O)CC", "C[C@@H](O)CC.CI", True),  # another stereoisomer of the target
        ("retro", "CCO", "CC=O", False),
        ("forward", "CCO.CN", "CCO", True),
        ("forward", "CCO.[Na+].[OH-]", "CC[O-].[Na+]", False),  # a salt shares its counterion with the flask
    ],
)
def test_echoes(task: Any, query: str, text: str, echo: bool) -> None:
    canonical = chem.canonical(text)
    assert canonical and distinct.echoes_query(task, query, canonical) == echo


@given(
    some.lists(
        some.tuples(
            some.sampled_from(["CCO", "OCC", "C=CO", "OC=C", "CC=O", "CCN", "C((", AMIDE]), some.floats(0.01, 1)
        )
    )
)
def test_every_answer_is_another_molecule_and_chances_add_up_to_one_at_most(drawn: list[tuple[str, float]]) -> None:
    result = searched(*(answer(text, odds, odds) for text, odds in drawn))
    found = distinct.select_result([result], AMIDE, "retro", DecodeSettings(n=3, distinct=True))
    listed = [one.canonical for one in found.hypotheses]
    assert len(set(listed)) == len(listed) <= 3
    assert not {"", AMIDE} & set(listed)
    assert sum(one.probability for one in found.hypotheses if one.calibrated) <= 1 + 1e-9
    assert all(chance <= 1 for one in found.hypotheses for _, chance in one.tautomers)
    assert found.distinct
    texts = {text for text, _ in drawn}
    assert len(listed) + found.distinct.merged + len(found.distinct.omitted) == len(texts)


def test_widths_end_at_a_limit() -> None:
    assert distinct.search_widths(DecodeSettings(n=5)) == (5, 10, 20)
    assert distinct.search_widths(DecodeSettings(n=30)) == (30, 50)
    assert distinct.search_widths(DecodeSettings(n=60)) == (60,)
    assert distinct.search_widths(DecodeSettings(n=1, distinct=True, guide="only amide")) == (1, 50, 100)
    assert distinct.search_widths(DecodeSettings(decoder="greedy", n=1)) == (1,)
    assert distinct.search_widths(DecodeSettings(decoder="sample", n=5)) == (5,)


@weights
def test_a_search_goes_on_until_it_has_what_was_asked_for() -> None:
    engine = chemspec.load("retro-50k")
    target = "CC(C)c1c(C(=O)Nc2ccccc2)c(-c2ccccc2)c(-c2ccc(F)cc2)n1CC[C@@H](O)C[C@@H](O)CC(=O)O"
    settings = DecodeSettings(n=10, distinct=True)
    one, other = engine.predict([target, AMIDE], settings)
    assert len({answer.canonical for answer in one.hypotheses}) == len(one.hypotheses) == 10
    assert len(other.hypotheses) == 10
    # The list holds what the exact beam of that width found, whoever else was in the batch.
    for result in (one, other):
        assert result.distinct
        several = len(result.distinct.widths) > 1
        assert any(" wide" in note for note in result.notes) == several
        plain = engine.predict(result.query, n=result.distinct.widths[-1])
        kept = {answer.canonical for answer in plain.hypotheses if answer.valid}
        assert {answer.canonical for answer in result.hypotheses} <= kept
        streamed = list(engine.stream(result.query, settings))[-1]
        assert isinstance(streamed, DecodeResult)
        quiet = replace(streamed.trace, passes=(), seconds=0.0)
        assert replace(streamed, trace=quiet) == replace(result, trace=quiet)


LIDOCAINE = "CCN(CC)CC(=O)Nc1c(C)cccc1C"


def breaks(reactants: str) -> bool:
    """Whether a step makes the amide bond of lidocaine."""
    step = classify_step(reactants, LIDOCAINE)
    return step is not None and (6, 8) in step.made


@weights
def test_a_guide_leaves_out_what_it_does_not_want_and_searches_wider_for_the_rest() -> None:
    engine = chemspec.load("retro-50k")
    free = engine.predict(LIDOCAINE, n=5, distinct=True)
    guided = engine.predict(LIDOCAINE, n=5, distinct=True, guide="break C6-N8")
    assert guided.distinct and guided.distinct.widths[0] == 5
    makes_it = [len([one for one in found.hypotheses if breaks(one.canonical)]) for found in (free, guided)]
    assert makes_it[0] < makes_it[1] == len(guided.hypotheses) == 5
    assert any("not as the guide wants" in note for note in guided.notes)
    (streamed,) = [
        one for one in engine.stream(LIDOCAINE, n=5, distinct=True, guide="break C6-N8") if hasattr(one, "status")
    ]
    assert streamed.hypotheses == guided.hypotheses


@weights
def test_a_guide_that_cannot_be_used_is_told_per_query() -> None:
    engine = chemspec.load("retro-50k")
    right, wrong = engine.predict([LIDOCAINE, "CCO"], n=2, distinct=True, guide="break C6-N8")
    assert right.status == "ok" and wrong.status == "invalid" and "there are C0-C1, C1-O2" in wrong.message
    (refused,) = chemspec.load("forward").predict(["CC(=O)Cl.CN"], n=2, distinct=True, guide="only amide")
    assert refused.status == "invalid" and "retro" in refused.message
    with pytest.raises(ValueError, match="distinct"):
        DecodeSettings(guide="only amide")
