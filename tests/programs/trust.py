"""How often a first answer of a given percentage is right: `python tests/programs/trust.py FILE -t TASK`.

FILE is what `chemspec evaluate` wrote. The bands are those of the words on the page Predict, the highest one parted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.cli import options as opt
from chemspec.data.settings import find_test_file
from chemspec.evaluation.accuracy import normalise_result, read_known_reactions, read_predictions, wilson_interval
from chemspec.tasks import check_task
from chemspec.terminal import console

BANDS = (0.99, 0.8, 0.3, 0.0)  # least probability of a first answer


def count_by_band(truths: Sequence[str], results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return for each band how many first answers it has, and how many are right, with a 95 % interval."""
    right: dict[float, list[bool]] = {band: [] for band in BANDS}
    for truth, result in zip(truths, results, strict=True):
        if result["hypotheses"]:
            first = result["hypotheses"][0]
            band = next(band for band in BANDS if first["probability"] >= band)
            right[band].append(first["canonical"] == truth)
    rows = []
    for band, hits in right.items():
        share, low, high = (f"{100 * value:.1f}" for value in wilson_interval(sum(hits), len(hits)).values())
        rows.append({"from %": round(100 * band), "answers": len(hits), "right, %": share, "low": low, "high": high})
    return rows


def main(
    predictions: Annotated[Path, typer.Argument(help="What `chemspec evaluate` wrote (.jsonl).")],
    task: str,
    source: opt.Source = None,
    file: Annotated[Path | None, option("As given to evaluate.")] = None,
    limit: Annotated[int, option("As given to evaluate.")] = 0,
    seed: Annotated[int, option("As given to evaluate.")] = 0,
) -> None:
    """Count right first answers by their probability."""
    name = check_task(task)
    reactions = read_known_reactions(file or find_test_file(source, task), name, limit=limit, seed=seed)
    results = [normalise_result(result, name) for result in read_predictions(predictions, reactions)]
    console.print_rows(count_by_band([item.answer for item in reactions], results))


app = script(main)
if __name__ == "__main__":
    app()
