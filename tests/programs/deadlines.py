"""Widths of the lists that a deadline allows, and how late they are: `python tests/programs/deadlines.py`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.asset_files import bench_queries
from chemspec.engine.deadline import predict_within
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings
from chemspec.tasks import check_task
from chemspec.terminal import console


@dataclass(frozen=True)
class Row:
    """Results of all queries with one deadline.

    Attributes:
        milliseconds: the deadline.
        ready: share of the queries with a list.
        full: share with a list of the full width.
        width: median beam width.
        abandoned: share whose last beam was abandoned.
        late: greatest lateness in milliseconds.
        same: whether every list is that of its beam without a deadline.
    """

    milliseconds: float
    ready: float
    full: float
    width: float
    abandoned: float
    late: float
    same: bool


def measure_deadline(
    engine: Engine, queries: Sequence[str], seconds: float, n: int, clock: Callable[[], float] = time.process_time
) -> Row:
    """Predict every query within some seconds of the clock, and again without a deadline with the width reached."""
    results, late, same = [], 0.0, True
    for query in queries:
        began = clock()
        result = predict_within(engine, query, seconds, DecodeSettings(n=n), clock=clock)
        late = max(late, clock() - began - seconds)
        assert result.within is not None
        results.append(result.within)
        if result.within.width:
            alone: dict[str, Any] = {"decoder": "greedy" if result.within.width == 1 else "beam", "distinct": False}
            same = same and result.hypotheses == engine.predict(query, n=result.within.width, **alone).hypotheses
    count = len(results)
    return Row(
        1000 * seconds,
        sum(item.width > 0 for item in results) / count,
        sum(item.width >= n for item in results) / count,
        median(item.width for item in results),
        sum(item.width > 0 and item.abandoned > 0 for item in results) / count,
        1000 * max(0.0, late),
        same,
    )


def main(
    task: Annotated[str, option("forward or retro.")] = "retro",
    limit: Annotated[int, option("Number of built-in queries.")] = 60,
    n: Annotated[int, option("Number of predictions, and widest beam.", "--n", "-n")] = 10,
    milliseconds: Annotated[str, option("Deadlines, separated by commas.")] = "5,10,20,50,100,200",
    dtype: str = "auto",
) -> None:
    """Predict built-in queries within several deadlines of processor time, with one thread."""
    engine = Engine.load(task, device="cpu", dtype=dtype, threads=1)
    queries = bench_queries(check_task(task))[:limit]
    for query in queries[:3]:  # what a first prediction costs is no part of a deadline
        predict_within(engine, query, 1.0, DecodeSettings(n=n), clock=time.process_time)
    headings = ("deadline, ms", "with a list", "full width", "median width", "abandoned", "worst lateness, ms", "same")
    console.print_line(f"| {' | '.join(headings)} |")
    console.print_line("|---|---|---|---|---|---|---|")
    for deadline in map(float, milliseconds.split(",")):
        row = measure_deadline(engine, queries, deadline / 1000, n)
        console.print_line(
            f"| {row.milliseconds:g} | {row.ready:.0%} | {row.full:.0%} | {row.width:g} | {row.abandoned:.0%} | "
            f"{row.late:.2f} | {'yes' if row.same else 'no'} |"
        )


app = script(main)
if __name__ == "__main__":
    app()
