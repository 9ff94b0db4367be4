"""Settings of measurements of accuracy and calibration."""

from dataclasses import dataclass
from pathlib import Path

from chemspec.settings import ReactionFolder


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Test reactions of an evaluation, and its predictions for them.

    Attributes:
        file: CSV with test reactions; default: the task's standard test set.
        limit: number of reactions, sampled at random; 0: all.
        out: file for the predictions (.jsonl); resumable.
        standard: also decode without drafts, and count differences.
    """

    source: ReactionFolder = None
    file: Path | None = None
    limit: int = 0
    seed: int = 0
    out: Path | None = None
    standard: bool = False


@dataclass(frozen=True, kw_only=True)
class CalibrationSettings:
    """Reactions that a model's probabilities are calibrated on, and its predictions for them.

    Attributes:
        queries: number of validation queries, sampled at random; 0: all.
        heldout: file of held-out reactions (heldout.csv): as many of these in addition, or alone without --source.
        out: file for the predictions (.jsonl); resumable.
    """

    source: ReactionFolder = None
    queries: int = 1000
    seed: int = 0
    heldout: Path | None = None
    n: int = 10
    out: Path | None = None
