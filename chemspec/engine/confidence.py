"""Calibrated probability that a prediction is correct, fitted on validation data and stored with the weights.

It is not the model's probability of a SMILES: other SMILES of the molecule and its tautomers take part of that, and
trained models
are over- or underconfident. A temperature on the log-odds corrects most of that (Guo et al. 2017, "On calibration of
modern neural networks").
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from chemspec.chem.molecules.tautomers import representatives
from chemspec.model.manifest import refresh_manifest
from chemspec.system.files import write_text_atomic
from chemspec.system.untrusted import read_untrusted_json
from chemspec.types import Hypothesis

FILE = "confidence.json"
BINS = 15
EDGE = 1e-6  # minimum distance of probabilities from 0 and 1, so that log-odds are finite
LIMITS = 1e-3, 1e6  # bounds of a slope; a negative one: probable predictions are wrong more often
STEPS = 60  # steps of the bisection
RIDGE = 1e-6  # keeps the fit finite if all predictions are correct, or all wrong

Scored = Sequence[tuple[float, bool]]  # probability, and whether the prediction was correct


@dataclass(frozen=True)
class Confidence:
    """probability = 1 / (1 + exp(-(slope * log-odds of the model's probability + offset)))."""

    digest: str  # digest of the weights it applies to (`Engine.digest`)
    slope: float  # inverse temperature
    offset: float  # 0; files of earlier versions may have another (Platt 1999)
    made: str  # command that fitted it
    measured: Mapping[str, float]  # metrics of the fit, for people

    def calibrated(self, probability: float) -> float:
        """Return the probability that a prediction is correct, from the model's probability."""
        return sigmoid(self.slope * log_odds(probability) + self.offset)

    def calibrate(self, answers: Sequence[Hypothesis]) -> tuple[Hypothesis, ...]:
        """Return the predictions with calibrated probabilities, 0 for invalid SMILES."""
        sums = probability_by_molecule(answers)
        calibrated = (self.calibrated(sums[answer.canonical]) if answer.valid else 0.0 for answer in answers)
        return tuple(
            replace(answer, probability=p, calibrated=True) for answer, p in zip(answers, calibrated, strict=True)
        )

    def save(self, folder: Path) -> None:
        """Write the file to a model folder."""
        write_text_atomic(folder / FILE, json.dumps(asdict(self), indent=1))
        refresh_manifest(folder)


def probability_by_molecule(answers: Sequence[Hypothesis]) -> dict[str, float]:
    """Return the model's probability, at most 1, of each valid molecule, summed over SMILES and tautomers in a list."""
    sums: dict[str, float] = {}
    first_tautomer = representatives(answer.canonical for answer in answers if answer.valid)
    for answer in {answer.tokens: answer for answer in answers}.values():  # a decoder may return one text several times
        if answer.valid:
            molecule = first_tautomer[answer.canonical]
            sums[molecule] = min(1.0, sums.get(molecule, 0.0) + answer.model_probability)
    return {smiles: sums[molecule] for smiles, molecule in first_tautomer.items()}


def load_confidence(folder: Path, digest: str) -> tuple[Confidence | None, str]:
    """Return a model folder's calibration, or None and why its file cannot be used, if there is one."""
    file = folder / FILE
    try:
        raw = read_untrusted_json(file)
        measured = msgspec.convert(raw, Confidence)
    except (FileNotFoundError, NotADirectoryError):  # a checkpoint of another program is a file
        return None, ""
    except (OSError, ValueError) as error:
        problem = f"cannot be read ({error})"
    else:
        if raw.get("likeness"):  # term of version 0.2 that changes slope and offset
            problem = "was fitted with a term for likeness, which is no longer known"
        elif not (math.isfinite(measured.slope) and math.isfinite(measured.offset) and measured.slope > 0):
            problem = "holds a slope or an offset that is none"
        elif measured.digest != digest:
            problem = "was measured with other weights and is left unused"
        else:
            return measured, ""
    return None, f"{file} {problem}; measure it again with `chemspec train calibration`, or remove the file"


# --- fitting and measuring -----------------------------------------------------------------------


def log_odds(probability: float) -> float:
    """log(p / (1 - p))."""
    inside = min(1 - EDGE, max(EDGE, probability))
    return math.log(inside / (1 - inside))


def sigmoid(x: float) -> float:
    """The inverse of `log_odds`."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def fit_slope(scored: Scored) -> float:
    """Return the slope of maximum likelihood, the inverse temperature, by bisection: the loss is convex."""
    if not scored:
        raise ValueError("there is no answer to measure the confidence on")
    x = np.array([log_odds(probability) for probability, _ in scored])
    right = np.array([float(outcome) for _, outcome in scored])
    low, high = LIMITS
    for _ in range(STEPS):
        slope = math.sqrt(low * high)
        # Of the negative log-likelihood, plus a penalty that keeps the slope finite for separable outcomes.
        gradient = float(x @ (np.exp(-np.logaddexp(0.0, -slope * x)) - right) + RIDGE * (slope - 1))
        low, high = (low, slope) if gradient > 0 else (slope, high)
    return high


def apply_calibration(scored: Scored, slope: float) -> list[tuple[float, bool]]:
    """Return the predictions with calibrated probabilities."""
    return [(sigmoid(slope * log_odds(p)), right) for p, right in scored]


def negative_log_likelihood(scored: Scored) -> float:
    """Return the mean negative log-likelihood of the outcomes, in nats."""
    inside = [(min(1 - EDGE, max(EDGE, p)), right) for p, right in scored]
    return -sum(math.log(p if right else 1 - p) for p, right in inside) / len(inside)


def expected_calibration_error(scored: Scored, *, mass: bool = False, bins: int = BINS) -> float:
    """Return the expected calibration error: |share right - mean probability|, averaged over bins by their sizes.

    See Naeini et al. 2015. With `mass`, bins have equal numbers of predictions instead of equal widths.
    """
    p, right = np.array(sorted(scored), dtype=float).T
    numbers = (np.arange(1, len(p) + 1) * bins - 1) // len(p) if mass else np.minimum(bins - 1, (p * bins).astype(int))
    return float(np.abs(np.bincount(numbers, right - p)).sum()) / len(p)
