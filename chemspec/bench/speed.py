"""Measure decoding speed in one run, with the same weights, queries and machine for every row.

Precisions and drafters alternate batch by batch, so that other load on the machine affects all of them alike.
"""

import platform
import resource
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import product
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from chemspec import asset_files
from chemspec.bench.settings import BenchSettings
from chemspec.bench.sweep import Row, Setting, paired_ratio, race_settings
from chemspec.engine.engine import Engine
from chemspec.engine.registry import task_of_model
from chemspec.evaluation.accuracy import KnownReaction, read_test_reactions
from chemspec.plugins import DRAFTERS
from chemspec.settings import DecodeSettings, loading_options
from chemspec.system import host
from chemspec.system.threads import usable_cores
from chemspec.tasks import check_task
from chemspec.types import Progress, ignore
from chemspec.version import __version__

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
    on_cpu = plan.device in ("auto", "cpu") and plan.runtime in ("auto", "native") and not torch.cuda.is_available()
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
        compared = replace(row, baseline=rows[index - drafter] if drafter else None)
        where = {name: getattr(engine, name) for name in ("runtime", "dtype", "device")}
        facts = {"engine": "chemspec", "version": __version__, "model": engine.name, **where, "drafter": names[drafter]}
        measured.append({"task": engine.task, **facts, **report_row(compared)})
    return measured


def report_row(row: Row) -> dict[str, Any]:
    """Return settings, times and counts of a row, compared with its baseline, or with itself."""
    settings, spread, standard = row.setting.settings, row.times, row.baseline or row
    # Paired by batch, so that long queries and load affect both sides.
    speedup = paired_ratio(standard.per_query, row.per_query)
    tokens = sum(len(answers[0]) + 1 for answers in row.answers if answers)
    same, first = row.same(), row.same(first=True)  # as the standard decoder
    return {
        "decoder": settings.decoder,
        "n": settings.n,
        "batch": settings.batch_size,
        "queries": sum(row.sizes),
        "median_ms": spread.median,
        "q1_ms": spread.low,
        "q3_ms": spread.high,
        "mean_ms": 1e3 * sum(row.seconds) / sum(row.sizes),
        "tokens_per_second": tokens / sum(row.seconds),  # of the first answers, including eos
        **dict(zip(("speedup", "speedup_low", "speedup_high"), speedup, strict=True)),
        "identical": all(same),
        "same_list": fmean(same),
        "same_first": fmean(first),
        **row.pick("passes_per_query", "nodes_per_pass", "tokens_per_pass", "acceptance_rate"),
        "drafted_per_query": row.counted.drafted / max(1, row.counted.queries),
    }


def read_queries(engine: Engine, source: Path | None, limit: int) -> list[KnownReaction]:
    """Return queries that the model can read, of `source` or built-in ones without answers; else raise ValueError."""
    if source is None:
        reactions = [KnownReaction(text, "") for text in asset_files.bench_queries(engine.task)]
    else:
        remedy = "leave --source out for built-in queries"
        reactions = read_test_reactions(source, engine.task, remedy=remedy, limit=limit)
    readable = [question for question in reactions if not engine.prepare(question.query).refusal]
    if not readable:
        raise ValueError(f"model {engine.name!r} can read none of the queries")
    return readable[:limit]


# --- the machine ---------------------------------------------------------------------------------


def reset_peak_memory() -> None:
    """Reset the peak memory of this process, if the system supports it (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_memory_mb() -> float:
    """Return the peak memory of this process in MB since `reset_peak_memory`, or since its start."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if platform.system() == "Darwin" else peak * 1024 / 1e6


def describe_machine(threads: int) -> dict[str, Any]:
    """Describe the machine and versions that the numbers depend on; 0 threads: all cores."""
    return {
        "cpu": host.processor_name(),
        "cores": usable_cores(),
        "threads": threads or usable_cores(),
        "load": round(host.load_average(), 2),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "chemspec": __version__,
        "date": time.strftime("%Y-%m-%d"),
    }
