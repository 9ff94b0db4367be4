"""Count passes, tokens and nodes by drafter and draft length, without timing.

All rows decode the same queries; `progress` is called with the number of finished rows and the total.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from chemspec.bench.settings import ComparisonSettings
from chemspec.bench.speed import read_queries
from chemspec.bench.sweep import Row, Setting, sweep_settings
from chemspec.engine.engine import Engine
from chemspec.engine.registry import drafter_megabytes, usable_drafters
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings
from chemspec.tasks import check_task
from chemspec.types import Progress, Tell, ignore


def load_comparison(comparison: ComparisonSettings, tell: Tell = ignore) -> tuple[Engine, list[str], tuple[str, ...]]:
    """Return the model of a comparison, its queries and the chosen drafters; `tell` is called with a message."""
    chosen = tuple(map(DRAFTERS.load, comparison.drafters))
    task = check_task(comparison.task or "retro") if comparison.task or not comparison.model else None
    name = comparison.model or str(task)
    engine = Engine.load(name, task=task, threads=comparison.threads, device=comparison.device)
    queries = [item.query for item in read_queries(engine, comparison.source, comparison.limit)]
    tell(f"model {name}, {len(queries)} {'test' if comparison.source else 'built-in'} queries")
    return engine, queries, chosen


def compare_drafters(
    comparison: ComparisonSettings, widths: Sequence[int] = (1,), *, tell: Tell = ignore, progress: Progress = ignore
) -> list[dict[str, Any]]:
    """Return one row per width (1: greedy) and drafter; `same`: whether all answers are those of the first one."""
    engine, queries, chosen = load_comparison(comparison, tell)
    names = chosen or ("none", *(name for name in usable_drafters(engine.folder) if name != "none"))
    settings = []
    for width in widths:
        decoder = "greedy" if width == 1 else "beam"
        plain = DecodeSettings(decoder=decoder, n=width, batch_size=comparison.batch_size, drafting="fixed")
        first = f"{names[0]}, {width}"
        settings += [Setting(f"{name}, {width}", replace(plain, drafter=name), first) for name in names]
    rows = sweep_settings(engine, queries, settings, progress=progress)
    return [{**_report_row(engine, row), "same": all(row.same())} for row in rows]


def compare_draft_lengths(
    comparison: ComparisonSettings,
    settings: DecodeSettings,
    lengths: Sequence[int],
    counts: Sequence[int] = (0,),
    *,
    tell: Tell = ignore,
    progress: Progress = ignore,
) -> list[dict[str, Any]]:
    """Decode queries with every drafter and draft length, after Tulsian et al.; length 0 is adaptive.

    With `counts`, drafters without a model also get every length, each with these numbers of drafts (N_d of Andronov et
    al.), where they read them. Without a choice the drafters are those of copy, mixed, ar and hierarchy that can be
    used; a ValueError without any. Returns one row per length for every drafter with a model, and one for every other
    drafter. `same` is the share of queries with the answers of the standard decoder, None for speculative sampling,
    which draws others.
    """
    engine, queries, names = load_comparison(comparison, tell)
    sampled = DECODERS.lookup(settings.decoder).drafts == "sampled"
    if not names:
        usable = [name for name in usable_drafters(engine.folder) if not sampled or DRAFTERS[name].build_sampled]
        names = tuple(name for name in ("copy", "mixed", "ar", "hierarchy") if name in usable)
    if not names:
        raise ValueError(f"{settings.decoder} needs a small model, which {engine.name} lacks: chemspec train --list")
    work = [Setting("standard", replace(settings, drafter="none"))]
    for name in names:
        spec = DRAFTERS.lookup(name)
        numbers = counts if "draft_count" in spec.reads else (0,)
        for length, count in product(lengths if spec.companions or any(counts) else (0,), numbers):
            drafted = replace(settings, drafter=name, draft_length=length, draft_count=count, drafting="fixed")
            work.append(Setting(f"{name} {length} {count}", drafted, "standard"))
    rows = sweep_settings(engine, queries, work, progress=progress)[1:]
    return [_report_row(engine, row) for row in rows]


def _report_row(engine: Engine, row: Row) -> dict[str, Any]:
    """Return the counts of a row; `gamma`: draft length of a small model, `megabytes`: its weights in fp32."""
    settings, report = row.setting.settings, row.report()
    learned = DRAFTERS.lookup(settings.drafter).companions
    return {
        "task": engine.task,
        **report,
        "same": report["same_list"],
        "gamma": str(settings.draft_length or "adaptive") if learned else str(settings.draft_length or ""),
        "drafts": settings.draft_count or None,
        "megabytes": drafter_megabytes(engine.folder, settings.drafter),
    }


LEGEND = "accepted: share of the answers' tokens that come from drafts; hits: share of drafted tokens that are accepted"


def display_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of `compare_drafters` with the texts for `DRAFTER_COLUMNS`."""
    return {**row, "width": row["n"] if row["n"] > 1 else None, "same": "yes" if row["same"] else "no"}
