"""Measure decoding speed in one run, with the same weights, queries and machine for every row.

Precisions and drafters alternate batch by batch, so that other load on the machine affects all of them alike.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from importlib import metadata
from itertools import product
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chemspec import asset_files
from chemspec.bench.settings import BenchSettings
from chemspec.bench.sweep import COLUMNS, Setting, race_settings
from chemspec.engine.engine import Engine
from chemspec.engine.options import loading_options
from chemspec.engine.registry import task_of_model
from chemspec.evaluation.accuracy import KnownReaction, read_test_reactions
from chemspec.io import tables
from chemspec.plugins import DRAFTERS
from chemspec.settings import DecodeSettings
from chemspec.system import gpu, host
from chemspec.system.threads import usable_cores
from chemspec.tasks import check_task
from chemspec.types import Progress, ignore
from chemspec.version import __version__

if TYPE_CHECKING:
    from rich.table import Table

MIN_TIMINGS = 20  # minimum number of timings; fewer batches are repeated


def list_settings(plan: BenchSettings, task: str) -> list[Setting]:
    """Return the decoding settings to measure for a task."""
    return [
        Setting(f"{task}, {n}, {batch}", DecodeSettings(decoder="beam" if n > 1 else "greedy", n=n, batch_size=batch))
        for n, batch in product(plan.widths if task == "retro" else (1,), plan.batches)
    ]


def resolve_choices(plan: BenchSettings) -> BenchSettings:
    """Return the plan with the tasks and precisions that "both" and "auto" mean, and its plug-in drafters loaded."""
    tasks, dtypes = plan.tasks, plan.dtypes
    if tasks == ("both",):
        of_model = plan.model and (task_of_model(plan.model) or Engine.load(plan.model).task)
        tasks = (of_model,) if of_model else ("forward", "retro")
    on_cpu = plan.device in ("auto", "cpu") and plan.runtime in ("auto", "native") and not gpu.gpu_count()
    if dtypes == ("auto",) and on_cpu:
        dtypes = ("fp32", "int8")  # int8 where the compiled kernel can run
    drafters = tuple(map(DRAFTERS.load, plan.drafters))
    return replace(plan, tasks=tuple(map(check_task, tasks)), dtypes=dtypes, drafters=drafters)


def run_benchmark(plan: BenchSettings, *, progress: Progress = ignore) -> dict[str, Any]:
    """Measure every row of the plan, see `resolve_choices`, and return `{"machine": ..., "rows": [...]}`.

    Speed-ups are medians over batches against the standard decoder (drafter none) of the same precision on the same
    queries, with a 95 % interval (bootstrap over batches); `identical` compares the answers. `progress` is called with
    the number of finished settings and the total.
    """
    plan = resolve_choices(plan)
    rows: list[dict[str, Any]] = []
    loading = loading_options(plan)
    total, done = sum(len(list_settings(plan, task)) for task in plan.tasks), 0
    for task in map(check_task, plan.tasks):
        engines = [Engine.load(plan.model or task, task=task, dtype=dtype, **loading) for dtype in plan.dtypes]
        queries = [question.query for question in read_queries(engines[0], plan.source, plan.limit)]
        for setting in list_settings(plan, task):
            rows += race_drafters(engines, queries, setting, plan.drafters)
            done += 1
            progress(done, total)
    return {"machine": {**describe_machine(plan.threads), "plan": asdict(plan)}, "rows": rows}


def race_drafters(
    engines: Sequence[Engine], queries: Sequence[str], setting: Setting, drafters: Sequence[str]
) -> list[dict[str, Any]]:
    """Time all precisions and drafters in turn; returns a row for each, compared with its precision without drafts."""
    names = list(dict.fromkeys(("none", *drafters)))
    drafted = [setting._replace(settings=replace(setting.settings, drafter=name)) for name in names]
    entries = [(engine, each) for engine in engines for each in drafted]
    batches = ceil(len(queries) / setting.settings.batch_size)
    rows = race_settings(entries, queries, rounds=ceil(MIN_TIMINGS / batches))
    measured = []
    for index, ((engine, _), row) in enumerate(zip(entries, rows, strict=True)):
        drafter = index % len(names)
        report = replace(row, baseline=rows[index - drafter]).report()
        where = {name: getattr(engine, name) for name in ("runtime", "dtype", "device")}
        facts = {"task": engine.task, "engine": "chemspec", "version": __version__, "model": engine.name, **where}
        measured.append({**facts, **report, "drafter": names[drafter], "identical": report["same_list"] == 1})
    return measured


def read_queries(engine: Engine, source: Path | None, limit: int) -> list[KnownReaction]:
    """Return queries that the model can read, of `source` or built-in ones; raise ValueError for none."""
    if source is None:
        answers = asset_files.bench_answers(engine.task)
        reactions = [KnownReaction(text, answers.get(text, "")) for text in asset_files.bench_queries(engine.task)]
    else:
        remedy = "leave --source out for built-in queries"
        reactions = read_test_reactions(source, engine.task, remedy=remedy, limit=limit)
    readable = [question for question in reactions if not engine.prepare(question.query).refusal]
    if not readable:
        raise ValueError(f"model {engine.name!r} can read none of the queries")
    return readable[:limit]


def describe_machine(threads: int) -> dict[str, Any]:
    """Describe the machine and versions that the numbers depend on; 0 threads: all cores."""
    return {
        "cpu": host.processor_name(),
        "cores": usable_cores(),
        "threads": threads or usable_cores(),
        "load": round(host.load_average(), 2),
        "gpu": gpu.device_name("cuda") if gpu.gpu_count() else None,
        "python": platform.python_version(),
        "torch": _torch_version(),
        "chemspec": __version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def _torch_version() -> str | None:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


# --- table and summary -----------------------------------------------------------------------------

UNDRAFTED = "nothing drafted"


def build_table(report: Mapping[str, Any]) -> Table:
    """Build the table for a terminal, in 100 columns unless batch sizes differ."""
    rows = [_narrow_row(row) for row in report["rows"]]
    batches = {"batch": "{batch}"} if len({row["batch"] for row in rows}) > 1 else {}
    return tables.terminal({**batches, **COLUMNS["speed"]}, rows)


def _narrow_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for the narrow table; a baseline has no speed-up, nor has a search without drafts."""
    faster = same = None
    if row["drafter"] != "none":
        interval = f"{row['speedup']:.2f} ({row['speedup_low']:.2f} to {row['speedup_high']:.2f})"
        faster = UNDRAFTED if row.get("drafted_per_query") == 0 else interval  # as where drafts would not pay
        same = f"{_count_identical(row)} of {row['queries']}"
    return {**row, "decoder": _decoder_label(row), "faster": faster, "same": same}


def summary_sentence(report: Mapping[str, Any]) -> str:
    """Summarise the speed-ups by decoder, smallest and largest; empty if no drafter was timed."""
    drafted = [row for row in report["rows"] if row["drafter"] != "none"]
    gains: dict[str, list[float]] = {}
    for row in drafted:
        gains.setdefault(_decoder_label(row), []).extend([] if row.get("drafted_per_query") == 0 else [row["speedup"]])
    if not gains:
        return ""
    gain = ", ".join(f"{decoder} {_format_range(values) if values else UNDRAFTED}" for decoder, values in gains.items())
    lists, same = sum(row["queries"] for row in drafted), sum(map(_count_identical, drafted))
    return f"Speed-up by drafts: {gain}; {same} of {lists} lists of answers are the same."


def _decoder_label(row: Mapping[str, Any]) -> str:
    return f"beam of {row['n']}" if row["decoder"] == "beam" else str(row["decoder"])


def _count_identical(row: Mapping[str, Any]) -> int:
    return round(float(row["same_list"]) * int(row["queries"]))


def _format_range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"
