"""Measure how often answers of a probability are right, on validation reactions, which no weight was fitted to.

Answers are those of a beam search. Two numbers of every different valid answer are measured: its probability
(`sequence`; of all spellings of the molecule in the list together) and its share of the list's probability (`share`).
Fits are made on one half of the queries and measured on the other, and the other way round; what is stored is fitted to
all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chemspec.engine.confidence import (
    Confidence,
    Scored,
    apply_calibration,
    expected_calibration_error,
    fit_log_odds,
    negative_log_likelihood,
)
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import KnownReaction, answer_all
from chemspec.settings import DecodeSettings

WORTH = 0.01  # an offset is kept if it lowers the held-out loss by so large a part of it

Answered = list[list[tuple[float, float, bool]]]  # a query's answers: probability, share, right


@dataclass(frozen=True)
class CalibrationReport:
    """What was measured.

    Attributes:
        queries, answers: validation queries, and their different valid answers.
        top1: the share of queries whose first answer is right.
        table: by kind ("sequence", "share") and way ("as it is", "temperature", "slope and offset"): held-out loss in
            nats and expected calibration errors (15 bins of equal width, of equal mass), of first answers and of all.
        slope, offset: fitted to all answers; what is stored.
    """

    queries: int
    answers: int
    top1: float
    table: dict[str, dict[str, dict[str, float]]]
    slope: float
    offset: float


NUMBERS = (
    "first: loss",
    "first: ece by width",
    "first: ece by mass",
    "all: loss",
    "all: ece by width",
    "all: ece by mass",
)


def table_rows(table: Mapping[str, Mapping[str, Mapping[str, float]]], names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return a report's table as text: kind, way, and the numbers of these names."""
    return [
        (kind, way, *(f"{measured[name]:.3f}" for name in names))
        for kind, ways in table.items()
        for way, measured in ways.items()
    ]


RAW, TEMPERATURE, PLATT = "as it is", "temperature", "slope and offset"


def measure(
    engine: Engine,
    asked: Sequence[KnownReaction],
    out: Path,
    settings: DecodeSettings,
    *,
    made: str = "",
    progress: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Confidence, CalibrationReport]:
    """Answer validation queries and fit the confidence to what was right.

    Args:
        engine: that answers.
        asked: validation reactions.
        out: predictions (.jsonl), resumable.
        settings: of a beam search.
        made: the command, for `Confidence.made`.
        progress: is told how many queries of how many are done.

    Raises:
        ValueError: if nothing can be learned: no valid answer, or merged ones.
    """
    if settings.augment > 1:
        raise ValueError("the confidence is measured on one spelling; leave --augment out")
    answered = outcomes(asked, answer_all(engine, asked, out, settings, progress=progress))
    report = examine(answered)
    measured = {name: report.table["sequence"][_way(report)][name] for name in NUMBERS}
    raw = {f"{name}, as it is": report.table["sequence"][RAW][name] for name in NUMBERS}
    numbers = {"queries": float(report.queries), **measured, **raw}
    return Confidence(engine.digest, report.slope, report.offset, made, numbers), report


def _way(report: CalibrationReport) -> str:
    return PLATT if report.offset else TEMPERATURE


def outcomes(asked: Sequence[KnownReaction], results: Sequence[Mapping[str, Any]]) -> Answered:
    """Return of every query its different valid answers, best first; results are in the form of `result_document`."""
    answered = []
    for question, result in zip(asked, results, strict=True):
        odds: dict[str, float] = {}
        for answer in result["hypotheses"]:
            if answer["valid"]:
                odds[answer["canonical"]] = min(1.0, odds.get(answer["canonical"], 0.0) + answer["probability"])
        total = sum(odds.values())
        answered.append([(p, p / total, text == question.answer) for text, p in odds.items() if total > 0])
    return answered


def examine(answered: Answered) -> CalibrationReport:
    """Measure both kinds three ways, and fit what is stored.

    Raises:
        ValueError: if there are not two queries with answers.
    """
    answered = [own for own in answered if own]
    if len(answered) < 2:
        raise ValueError("fewer than two of the queries have a valid answer; nothing can be measured")
    table = {kind: _ways(answered, place) for place, kind in enumerate(("sequence", "share"))}
    measured = table["sequence"]
    gain = measured[TEMPERATURE]["all: loss"] - measured[PLATT]["all: loss"]
    offset = gain > WORTH * measured[TEMPERATURE]["all: loss"]
    slope, shift = fit_log_odds(_scored(answered, 0), offset=offset)
    return CalibrationReport(
        len(answered), sum(map(len, answered)), sum(own[0][2] for own in answered) / len(answered), table, slope, shift
    )


def _scored(answered: Answered, place: int) -> list[tuple[float, bool]]:
    return [(answer[place], answer[2]) for own in answered for answer in own]


def _ways(answered: Answered, place: int) -> dict[str, dict[str, float]]:
    """Held-out numbers of one kind: each half of the queries is measured with what was fitted to the other."""
    halves = answered[::2], answered[1::2]
    ways = {RAW: _numbers(answered, place, [(1.0, 0.0)] * 2)}
    for way, offset in ((TEMPERATURE, False), (PLATT, True)):
        fitted = [fit_log_odds(_scored(other, place), offset=offset) for other in halves[::-1]]
        ways[way] = _numbers(answered, place, fitted)
    return ways


def _numbers(answered: Answered, place: int, fitted: Sequence[tuple[float, float]]) -> dict[str, float]:
    first: list[tuple[float, bool]] = []
    every: list[tuple[float, bool]] = []
    for own_half, (slope, offset) in zip((answered[::2], answered[1::2]), fitted, strict=True):
        first += apply_calibration([(own[0][place], own[0][2]) for own in own_half], slope, offset)
        every += apply_calibration(_scored(own_half, place), slope, offset)
    return {
        f"{name}: {what}": value
        for name, scored in (("first", first), ("all", every))
        for what, value in _errors(scored).items()
    }


def _errors(scored: Scored) -> dict[str, float]:
    return {
        "loss": negative_log_likelihood(scored),
        "ece by width": expected_calibration_error(scored),
        "ece by mass": expected_calibration_error(scored, mass=True),
    }
