"""Fine-tuned models: how far a run is, and what was measured; needs no PyTorch."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chemspec.engine.registry import own_models_dir

MIN_REACTIONS = 30  # reactions: with fewer neither training nor the held-out part says anything
MIN_CALIBRATED = 40  # held-out reactions with answers; by fewer, a calibration may be worse than none
LISTED = 5  # answers of each query in a measurement
LOG, REPORT, STAGE = Path("run") / "log.csv", "report.json", "stage.json"  # in the work folder
STAGES = {
    "reading": "preparing the reactions",
    "before": "measuring the model before",
    "training": "training",
    "after": "measuring the model after",
    "done": "done",
}


def read_progress(work: Path) -> tuple[str, int, int]:
    """Return the stage of a run (`STAGES`), and training steps done and in total; no stage before it began."""
    try:
        stage = json.loads((work / STAGE).read_text(encoding="utf-8"))
        lines = (work / LOG).read_text(encoding="utf-8").splitlines() if (work / LOG).is_file() else []
        steps = [int(row["step"]) for row in csv.DictReader(lines) if row["step"]]
        return str(stage["stage"]), max(steps, default=0), int(stage["steps"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", 0, 0


def read_report(folder: Path) -> dict[str, Any] | None:
    """Return what was measured when a model was fine-tuned; None for another model."""
    try:
        document = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
        report: dict[str, Any] = document["accuracy"]["report"]
        return report if isinstance(report["before"], dict) and isinstance(report["after"], dict) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def own_models() -> dict[str, dict[str, Any]]:
    """Return the fine-tuned models by name with their reports, the oldest first."""
    home = own_models_dir()
    folders = sorted(home.iterdir(), key=lambda path: path.stat().st_mtime) if home and home.is_dir() else []
    reports = {path.name: read_report(path) for path in folders if path.is_dir() and path.name[0] != "."}
    return {name: report for name, report in reports.items() if report}


def report_rows(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the rows of a table: what was measured, before, after, and the change in reactions."""
    named = {"own": "your held-out reactions", "public": "public test reactions"}
    rows = []
    for part, words in named.items():
        before, after = report["before"][part], report["after"][part]
        total = before["reactions"]
        for rank, label in (("1", "first answer right"), (str(LISTED), f"among the first {LISTED}")):
            counts = [round(side["top"][rank]["value"] * total) for side in (before, after)]
            shares = [f"{count} of {total} ({100 * count / max(1, total):.0f} %)" for count in counts]
            rows.append((f"{words}, {label}", *shares, f"{counts[1] - counts[0]:+d}".replace("-", "−")))
    return rows


def describe_calibration(report: Mapping[str, Any]) -> str:
    """Return whether the probabilities of a model are calibrated, and by what, as a sentence."""
    if count := report.get("calibrated"):
        return (
            f"Its probabilities are calibrated by {count} held-out reactions, so they hold for reactions of that kind."
        )
    return (
        f"Its probabilities are its own, not calibrated: that takes {MIN_CALIBRATED} held-out reactions with answers."
    )


def describe_report(report: Mapping[str, Any]) -> str:
    """Return what a model has learned and forgotten, as text."""
    lines = [f"{what}: {before}, then {after}" for what, before, after, _ in report_rows(report)]
    return "\n".join([f"{report['start']}, then after {report['steps']} steps:", *lines, describe_calibration(report)])
