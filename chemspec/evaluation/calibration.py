"""Calibrate the probabilities of beam-search answers on validation reactions.

Two scores of every distinct valid answer are calibrated: its probability (`sequence`; summed over all SMILES of the
molecule in the list) and its share of the list's total probability (`share`). Two-fold cross-validation gives the
reported numbers; the stored calibration is fitted to all queries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chemspec.engine.confidence import (
    Confidence,
    apply_calibration,
    expected_calibration_error,
    fit_log_odds,
    negative_log_likelihood,
)
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import KnownReaction, predict_to_file
from chemspec.settings import DecodeSettings

MIN_OFFSET_GAIN = 0.01  # relative decrease of the held-out loss that justifies an offset

Answered = list[list[tuple[float, float, bool]]]  # per query its answers: probability, share, correct


@dataclass(frozen=True)
class CalibrationReport:
    """Result of a calibration.

    The table is by score ("sequence", "share") and method ("as it is", "temperature", "slope and offset"): held-out
    loss in nats and expected calibration errors (15 bins of equal width, of equal mass), of first and all answers.
    """

    queries: int  # of the validation
    answers: int  # distinct valid ones
    top1: float  # share of queries whose first answer is correct
    table: dict[str, dict[str, dict[str, float]]]
    slope: float  # stored calibration, fitted to all answers
    offset: float


NUMBERS = tuple(f"{which}: {what}" for which in ("first", "all") for what in ("loss", "ece by width", "ece by mass"))


def format_table_rows(
    table: Mapping[str, Mapping[str, Mapping[str, float]]], names: Sequence[str]
) -> list[tuple[str, ...]]:
    """Format a report's table: score, method, and the named numbers."""
    return [
        (kind, method, *(f"{measured[name]:.3f}" for name in names))
        for kind, methods in table.items()
        for method, measured in methods.items()
    ]


RAW, TEMPERATURE, PLATT = "as it is", "temperature", "slope and offset"


def measure_calibration(
    engine: Engine,
    reactions: Sequence[KnownReaction],
    out: Path,
    settings: DecodeSettings,
    *,
    made: str = "",
    progress: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Confidence, CalibrationReport]:
    """Predict queries and fit the confidence to correctness; raises ValueError without valid answers, or if merged."""
    if settings.augment > 1:
        raise ValueError("confidence is calibrated without augmentation; leave out --augment")
    answered = collect_outcomes(reactions, predict_to_file(engine, reactions, out, settings, progress=progress))
    report = fit_calibrations(answered)
    methods = report.table["sequence"]
    measured = {name: methods[PLATT if report.offset else TEMPERATURE][name] for name in NUMBERS}
    raw = {f"{name}, as it is": methods[RAW][name] for name in NUMBERS}
    numbers = {"queries": float(report.queries), **measured, **raw}
    return Confidence(engine.digest, report.slope, report.offset, made, numbers), report


def collect_outcomes(reactions: Sequence[KnownReaction], results: Sequence[Mapping[str, Any]]) -> Answered:
    """Return the distinct valid answers of every query, best first; results are as in `result_document`."""
    answered = []
    for question, result in zip(reactions, results, strict=True):
        odds: dict[str, float] = {}
        for answer in result["hypotheses"]:
            if answer["valid"]:
                odds[answer["canonical"]] = min(1.0, odds.get(answer["canonical"], 0.0) + answer["probability"])
        total = sum(odds.values())
        answered.append([(p, p / total, text == question.answer) for text, p in odds.items() if total > 0])
    return answered


def fit_calibrations(answered: Answered) -> CalibrationReport:
    """Measure both scores with three methods, and fit the stored calibration; needs two answered queries."""
    answered = [answers for answers in answered if answers]
    if len(answered) < 2:
        raise ValueError("fewer than two of the queries have a valid answer; nothing can be measured")
    table = {kind: _cross_validate(answered, column) for column, kind in enumerate(("sequence", "share"))}
    measured = table["sequence"]
    gain = measured[TEMPERATURE]["all: loss"] - measured[PLATT]["all: loss"]
    offset = gain > MIN_OFFSET_GAIN * measured[TEMPERATURE]["all: loss"]
    slope, shift = fit_log_odds(_score_pairs(answered, 0), offset=offset)
    top1 = sum(answers[0][2] for answers in answered) / len(answered)
    return CalibrationReport(len(answered), sum(map(len, answered)), top1, table, slope, shift)


def _score_pairs(answered: Answered, column: int) -> list[tuple[float, bool]]:
    return [(answer[column], answer[2]) for answers in answered for answer in answers]


def _cross_validate(answered: Answered, column: int) -> dict[str, dict[str, float]]:
    """Return held-out numbers of one score: each half of the queries is measured with the fit to the other half."""
    halves = answered[::2], answered[1::2]
    methods = {RAW: _held_out_numbers(answered, column, [(1.0, 0.0)] * 2)}
    for method, offset in ((TEMPERATURE, False), (PLATT, True)):
        fitted = [fit_log_odds(_score_pairs(other, column), offset=offset) for other in halves[::-1]]
        methods[method] = _held_out_numbers(answered, column, fitted)
    return methods


def _held_out_numbers(answered: Answered, column: int, fitted: Sequence[tuple[float, float]]) -> dict[str, float]:
    first: list[tuple[float, bool]] = []
    every: list[tuple[float, bool]] = []
    for half, (slope, offset) in zip((answered[::2], answered[1::2]), fitted, strict=True):
        first += apply_calibration([(answers[0][column], answers[0][2]) for answers in half], slope, offset)
        every += apply_calibration(_score_pairs(half, column), slope, offset)
    numbers = {}
    for name, scored in (("first", first), ("all", every)):
        numbers[f"{name}: loss"] = negative_log_likelihood(scored)
        numbers[f"{name}: ece by width"] = expected_calibration_error(scored)
        numbers[f"{name}: ece by mass"] = expected_calibration_error(scored, mass=True)
    return numbers
