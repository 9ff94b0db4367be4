"""Turn a model's probability into the chance of being right, as measured on validation data; kept beside the weights.

A model's probability of a text is not the chance that the answer is right: other spellings of the same molecule take
part of the probability, and trained models are too sure or not sure enough. One temperature, or a slope and an offset
(Platt 1999), on the log-odds mends most of that (Guo et al. 2017, "On calibration of modern neural networks").
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from chemspec.system.untrusted import read_untrusted_json
from chemspec.types import Hypothesis

FILE = "confidence.json"
BINS = 15
EDGE = 1e-6  # probabilities are kept so far from 0 and 1: log-odds must be finite
STEPS = 100  # of Newton's method, which needs about ten
RIDGE = 1e-6  # keeps the fit finite where all answers are right, or all wrong

Scored = Sequence[tuple[float, bool]]  # probability, and whether the answer was right


class ConfidenceError(ValueError):
    """A file of this module that cannot be used; the message names it and says what to do."""


@dataclass(frozen=True)
class Confidence:
    """confidence = 1 / (1 + exp(-(slope * log-odds of the probability + offset))).

    Attributes:
        digest: of the weights it was measured with (`Engine.digest`); it means nothing for others.
        slope: one over the temperature.
        offset: 0 where a temperature alone fits as well.
        made: the command that measured it.
        measured: numbers of the measurement, for people.
    """

    digest: str
    slope: float
    offset: float
    made: str
    measured: Mapping[str, float]

    def of(self, probability: float) -> float:
        """The chance that an answer of this probability is right."""
        return squash(self.slope * log_odds(probability) + self.offset)

    def assess(self, answers: Sequence[Hypothesis]) -> tuple[Hypothesis, ...]:
        """Return the answers to one spelling, each with its confidence: 0 for one that is no molecule."""
        chances = by_molecule(answers)
        return tuple(
            replace(answer, confidence=self.of(chances[answer.canonical]) if answer.valid else 0.0)
            for answer in answers
        )

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        partial = folder / (FILE + ".partial")
        partial.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        partial.replace(folder / FILE)


def by_molecule(answers: Sequence[Hypothesis]) -> dict[str, float]:
    """The probability of each valid molecule: that of all its spellings in the list together, at most 1."""
    chances: dict[str, float] = {}
    for answer in answers:
        if answer.valid:
            chances[answer.canonical] = min(1.0, chances.get(answer.canonical, 0.0) + answer.probability)
    return chances


def load(folder: Path, digest: str) -> Confidence | None:
    """Return what a model folder holds; None where it holds nothing of the kind.

    Raises:
        ConfidenceError: if it is damaged, or was measured with other weights than those of `digest`.
    """
    file = folder / FILE
    remedy = "measure it again with `chemspec train calibration`, or remove the file"
    try:
        raw = read_untrusted_json(file)
        measured = msgspec.convert(raw, Confidence)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfidenceError(f"{file} cannot be read ({error}); {remedy}") from error
    if raw.get("likeness"):  # a term of version 0.2, with which slope and offset were fitted
        raise ConfidenceError(f"{file} was fitted with a term for likeness, which is no longer known; {remedy}")
    if not (math.isfinite(measured.slope) and math.isfinite(measured.offset) and measured.slope > 0):
        raise ConfidenceError(f"{file} holds a slope or an offset that is none; {remedy}")
    if measured.digest != digest:
        raise ConfidenceError(f"{file} was measured with other weights and is left unused; {remedy}")
    return measured


# --- fitting and measuring -----------------------------------------------------------------------


def log_odds(probability: float) -> float:
    """log(p / (1 - p))."""
    inside = min(1 - EDGE, max(EDGE, probability))
    return math.log(inside / (1 - inside))


def squash(odds: float) -> float:
    """The inverse of `log_odds`."""
    return 1 / (1 + math.exp(-odds)) if odds >= 0 else math.exp(odds) / (1 + math.exp(odds))


def fit(scored: Scored, *, offset: bool) -> tuple[float, float]:
    """Slope and offset (0 unless wanted) that make the outcomes likeliest; Newton's method on a convex loss.

    Raises:
        ValueError: if there is nothing to fit.
    """
    if not scored:
        raise ValueError("there is no answer to measure the confidence on")
    x = np.array([log_odds(probability) for probability, _ in scored])
    right = np.array([float(outcome) for _, outcome in scored])
    inputs = np.stack((x, np.full_like(x, offset)))  # without an offset a row of 0, whose weight stays 0
    begin = np.array([1.0, 0.0])

    def loss(weights: NDArray[np.float64]) -> float:
        """Return the outcomes' negative log-likelihood and a little for being far from 1 and 0.

        Outcomes that a slope can tell apart altogether would be the likelier the steeper it is, without end.
        """
        odds = weights @ inputs
        likelihood = np.logaddexp(0.0, odds) - right * odds
        return float(likelihood.sum() + RIDGE / 2 * ((weights - begin) ** 2).sum())

    weights = begin
    for _ in range(STEPS):
        p = np.exp(-np.logaddexp(0.0, -(weights @ inputs)))
        gradient = inputs @ (p - right) + RIDGE * (weights - begin)
        move = np.linalg.solve((inputs * (p * (1 - p))) @ inputs.T + RIDGE * np.eye(2), gradient)
        share = 1.0
        while share > 1e-9 and loss(weights - share * move) > loss(weights):
            share /= 2  # far from the optimum Newton overshoots
        weights = weights - share * move
        if np.abs(move).max() < 1e-9:
            break
    # A model whose probability misleads tells next to nothing.
    return max(float(weights[0]), 1e-3), float(weights[1])


def apply(scored: Scored, slope: float, offset: float) -> list[tuple[float, bool]]:
    """The same answers with calibrated probabilities."""
    return [(squash(slope * log_odds(p) + offset), right) for p, right in scored]


def nll(scored: Scored) -> float:
    """Mean negative log-likelihood of the outcomes, in nats."""
    inside = [(min(1 - EDGE, max(EDGE, p)), right) for p, right in scored]
    return -sum(math.log(p if right else 1 - p) for p, right in inside) / len(inside)


def ece(scored: Scored, *, mass: bool = False, bins: int = BINS) -> float:
    """Return the expected calibration error: |share right - mean probability|, averaged over bins by their sizes.

    See Naeini et al. 2015.

    Args:
        scored: probabilities, and which answers were right.
        bins: their number.
        mass: bins of equally many answers instead of equally wide ones.
    """
    rows = sorted(scored)
    if mass:
        cuts = [len(rows) * k // bins for k in range(bins + 1)]
        parts = [rows[start:end] for start, end in pairwise(cuts)]
    else:
        parts = [[] for _ in range(bins)]
        for p, right in rows:
            parts[min(bins - 1, int(p * bins))].append((p, right))
    return sum(abs(sum(right for _, right in part) - sum(p for p, _ in part)) for part in parts) / len(rows)
