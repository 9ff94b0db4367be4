"""Flasks that a sceptical chemist wrote, with the forward model's first answer: what the review says of each."""

from __future__ import annotations

import pytest
from helpers.paths import ROOT
from helpers.thinned import every

from chemspec import chem
from chemspec.chem import formats
from chemspec.review import StepChecker, review_result
from chemspec.types import DecodeResult, Hypothesis

TABLE = ROOT / "tests" / "data" / "sceptical_flasks.tsv"
ROWS = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()]
MAX_MISSED = 2  # of a round, wrong answers above 50 % without a word


@pytest.mark.parametrize("number", every(5, sorted({row[0] for row in ROWS})))  # all of them take 10 s
def test_wrong_answers_are_marked_and_right_ones_are_not(number: str) -> None:
    rows = [row[1:] for row in ROWS if row[0] == number]
    for verdict, percent, typed, answer, _ in rows:
        query = formats.read_input(typed, task="forward")
        assert not isinstance(query, chem.Fault), typed
        p = int(percent.removesuffix("%")) / 100
        first = Hypothesis(answer, answer, True, (answer,), (0.0,), 0.0, p, p, calibrated=True)
        result = DecodeResult(query.smiles, "ok", "", (first,), smiles=query.smiles)
        problems = review_result("forward", result, StepChecker(None)).suggestions[0].problems
        assert bool(problems) == (verdict in ("marked", "alarm")), (typed, answer, problems)
    verdicts = [row[0] for row in rows]
    assert verdicts.count("missed") <= MAX_MISSED and verdicts.count("alarm") <= 2
