"""Count what drafters and their draft lengths save and cost. No clock is read.

All answer the same queries; `progress` is told how many rows of how many are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from chemspec.bench.sweep import Progress, Setting, sweep
from chemspec.draft.registry import DRAFTERS
from chemspec.engine.engine import Engine
from chemspec.engine.registry import drafter_megabytes
from chemspec.model import checkpoint
from chemspec.model.checkpoint import stored_tensors
from chemspec.settings import DecodeSettings


def drafters(
    engine: Engine,
    queries: Sequence[str],
    names: Sequence[str],
    *,
    widths: Sequence[int] = (1,),
    batch_size: int = 1,
    progress: Progress = lambda *_: None,
) -> list[dict[str, Any]]:
    """Answer queries with every drafter; width 1 is greedy.

    Returns:
        A row for every width and drafter. `megabytes` are those of the drafter's own weights in fp32 (tables 8 and 9 of
        Xia et al.), 0 where it has none. `same` says whether all answers were those of the first drafter.
    """
    settings = []
    for width in widths:
        plain = DecodeSettings(
            decoder="greedy" if width == 1 else "beam", n=width, batch_size=batch_size, drafting="fixed"
        )
        settings += [
            Setting(f"{name}, {width}", replace(plain, drafter=name), f"{names[0]}, {width}") for name in names
        ]
    return [
        {
            "task": engine.task,
            **row.pick("decoder", "n", "drafter"),
            "queries": len(queries),
            **row.pick("passes_per_query", "tokens_per_pass", "acceptance_rate", "draft_hit_rate", "nodes_per_pass"),
            "megabytes": drafter_megabytes(engine.folder, row.setting.settings.drafter),
            "same": all(row.same()),
        }
        for row in sweep(engine, queries, settings, progress=progress)
    ]


def draft_lengths(
    engine: Engine,
    queries: Sequence[str],
    settings: DecodeSettings,
    *,
    names: Sequence[str],
    lengths: Sequence[int],
    progress: Progress = lambda *_: None,
) -> list[dict[str, Any]]:
    """Answer queries with every drafter and draft length, after Tulsian et al.; length 0 adapts to the drafts' fate.

    Returns:
        One row for every drafter with a model and length, and one for every other drafter. `same` is the share of
        queries with the answers of the standard decoder; draws of speculative sampling are others by nature, so that it
        says nothing there.
    """
    work = [Setting("standard", replace(settings, drafter="none"))]
    for name in names:
        for length in lengths if DRAFTERS.lookup(name).companions else (0,):
            work.append(
                Setting(
                    f"{name} {length}",
                    replace(settings, drafter=name, draft_length=length, drafting="fixed"),
                    "standard",
                )
            )
    rows = []
    for row in sweep(engine, queries, work, progress=progress)[1:]:
        how, counted = row.setting.settings, row.counted
        learned = bool(DRAFTERS.lookup(how.drafter).companions)
        rows.append(
            {
                **row.pick("decoder", "n", "drafter"),
                "gamma": str(how.draft_length or "adaptive") if learned else "",
                **row.pick("passes", "passes_per_query", "draft_calls"),
                "calls_per_query": counted.draft_calls / counted.queries,
                "calls_per_pass": counted.draft_calls / max(1, counted.passes),
                **row.pick("nodes_per_pass", "tokens_per_pass", "acceptance_rate", "draft_hit_rate", "alpha"),
                "same": fmean(row.same()),
            }
        )
    return rows


def target_megabytes(engine: Engine) -> float:
    """Return the size of the target's weights in fp32."""
    model = checkpoint.load(engine.folder).model
    return 4 * sum(tensor.numel() for tensor in stored_tensors(model).values()) / 1e6


DRAFTER_COLUMNS = {
    "decoder": "{decoder}{width}",
    "drafter": "{drafter}",
    "queries": "{queries}",
    "passes": "{passes_per_query:.2f}",
    "tokens/pass": "{tokens_per_pass:.2f}",
    "accepted": "{acceptance_rate:.0%}",
    "hits": "{draft_hit_rate:.0%}",
    "nodes/pass": "{nodes_per_pass:.1f}",
    "weights MB": "{megabytes:.1f}",
    "same": "{same}",
}
LENGTH_COLUMNS = {
    "decoder": "{decoder}",
    "drafter": "{drafter}",
    "gamma": "{gamma}",
    "passes": "{passes_per_query:.1f}",
    "calls": "{calls_per_query:.1f}",
    "nodes/pass": "{nodes_per_pass:.1f}",
    "tokens/pass": "{tokens_per_pass:.2f}",
    "hits": "{draft_hit_rate:.0%}",
    "alpha": "{alpha:.3f}",
    "same": "{same:.0%}",
}


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of `drafters` with what `DRAFTER_COLUMNS` needs besides."""
    return {**row, "width": row["n"] if row["n"] > 1 else None, "same": "yes" if row["same"] else "no"}
