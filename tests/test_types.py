"""Values go through JSON unharmed; what is no result is refused with a message."""

from __future__ import annotations

import dataclasses
import json
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chemspec.types import (
    AcceptedSpan,
    DecodeResult,
    Hypothesis,
    Merged,
    Pass,
    Scores,
    Trace,
    Vote,
    Within,
    result_from_json,
    to_json,
)

numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 10**6)
texts = st.text(max_size=12)
spans = st.builds(AcceptedSpan, counts, counts, texts, st.none() | st.tuples(counts, counts))
passes = st.builds(
    Pass,
    counts,
    counts,
    counts,
    counts,
    counts,
    numbers | st.just(inf),
    counts,
    numbers,
    numbers,
    st.lists(spans, max_size=2).map(tuple),
)
options = st.dictionaries(texts, numbers | texts | st.booleans() | st.integers(), max_size=3)
words = st.lists(texts, max_size=4).map(tuple)
traces = st.builds(Trace, words, options, st.lists(passes, max_size=3).map(tuple), numbers)
hypotheses = st.builds(
    Hypothesis,
    texts,
    texts,
    st.booleans(),
    words,
    st.lists(numbers, max_size=4).map(tuple),
    numbers,
    numbers,
    numbers,
    st.sampled_from(["eos", "length"]),
    st.booleans(),
    st.none() | st.builds(Vote, numbers, counts, counts, counts),
)
parts = (
    texts,
    st.sampled_from(["ok", "invalid", "too_long", "failed"]),
    texts,
    st.lists(hypotheses, max_size=3).map(tuple),
    traces,
    words,
)
results = st.builds(
    DecodeResult,
    *parts,
    st.none() | st.builds(Merged, counts, counts, counts, counts),
    st.lists(st.builds(DecodeResult, *parts), max_size=2).map(tuple),
    within=st.none() | st.builds(Within, numbers, counts, counts, counts),
)


@given(results)
def test_a_result_goes_through_json_unharmed(result: DecodeResult) -> None:
    text = to_json(result)
    assert "\n" not in text
    assert result_from_json(text) == result


def test_json_names_every_field_of_a_result() -> None:
    result = DecodeResult("C", "ok", "")
    assert set(json.loads(to_json(result))) == {f.name for f in dataclasses.fields(DecodeResult)}


GOOD = json.loads(to_json(DecodeResult("C", "ok", "", trace=Trace(("C",), {}))))


@pytest.mark.parametrize(
    "text",
    [
        *("", "no json", "3", "null", "[]", "{}"),
        *(
            json.dumps({**GOOD, **change})
            for change in ({"trace": None}, {"query": 3}, {"notes": "text"}, {"hypotheses": [{}]})
        ),
        json.dumps({k: v for k, v in GOOD.items() if k != "query"}),
    ],
)
def test_what_is_no_result_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a chemspec result"):
        result_from_json(text)


def test_files_of_earlier_versions_open() -> None:
    """Fields that came later have defaults; an infinite margin is null."""
    old = {"asked": 1, "computed": 2, "drafted": 1, "emitted": 1, "accepted": 0, "margin": None, "width": 1}
    passes = [{**old, "draft_seconds": 0, "model_seconds": 0.5, "spans": [[]][:0]}]
    values = {"query": "C", "status": "ok", "message": "", "hypotheses": []}
    read = result_from_json(json.dumps({**values, "trace": {"query": ["C"], "settings": {"n": 1}, "passes": passes}}))
    assert read.trace.passes == (Pass(1, 2, 1, 1, 0, inf, 1, 0, 0.5),)
    assert (read.notes, read.merged, read.variants) == ((), None, ())


def test_predictions_of_earlier_versions_have_todays_keys() -> None:
    old = {"smiles": "C", "canonical": "C", "valid": True, "tokens": ["C"], "token_log_probs": [-1.0], "log_prob": -1.0}
    old |= {"vote": {"score": 1.0, "spellings": 2, "best_rank": 1, "spelling": 0}, "probability": 0.37}
    answers = [{**old, "confidence": 0.8}, {**old, "confidence": None}]
    values = {
        "query": "C",
        "status": "ok",
        "message": "",
        "hypotheses": answers,
        "trace": {"query": [], "settings": {}},
    }
    sure, unknown = result_from_json(json.dumps(values)).hypotheses
    assert (sure.probability, sure.model_probability, sure.calibrated) == (0.8, 0.37, True)
    assert (unknown.probability, unknown.model_probability, unknown.calibrated) == (0.37, 0.37, False)
    assert sure.vote == Vote(1.0, 2, 1, 0)


def test_the_margin_is_the_gap_between_the_best_two() -> None:
    assert Scores((5, 6, 7), (-0.5, -2.0, -3.0)).margin == 1.5
    assert Scores((5,), (-0.5,)).margin == inf
