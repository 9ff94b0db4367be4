"""Count how drafters with a model fare by draft length: passes, runs of the small models, tokens a pass.

After Tulsian et al.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chemspec.bench.sweep import Progress, Setting, sweep
from chemspec.draft.learned.small import DraftModel, write_alpha
from chemspec.draft.registry import DRAFTERS
from chemspec.engine.engine import Engine
from chemspec.metrics import numbers
from chemspec.settings import DecodeSettings


def count(
    engine: Engine,
    queries: Sequence[str],
    settings: DecodeSettings,
    *,
    drafters: Sequence[str],
    lengths: Sequence[int],
    progress: Progress = lambda *_: None,
) -> list[dict[str, Any]]:
    """Answer queries with every drafter and draft length, and count.

    Args:
        engine: of the target.
        queries: SMILES.
        settings: the decoder; drafter and draft length in it are not looked at.
        drafters: names.
        lengths: tokens that a drafter with a model drafts at once; 0 adapts to their fate.
        progress: is told how many settings of how many are done.

    Returns:
        One row for every drafter with a model and length, and one for every other drafter. `same` is the share of
        queries with the answers of the standard decoder; draws of speculative sampling are others by nature, so that it
        says nothing there.
    """
    work = [Setting("standard", replace(settings, drafter="none"))]
    for name in drafters:
        for length in lengths if DRAFTERS.lookup(name).companions else (0,):
            work.append(Setting(f"{name} {length}", replace(settings, drafter=name, draft_length=length), "standard"))
    rows = []
    for row in sweep(engine, queries, work, progress=progress)[1:]:
        how, counted, same = row.setting.settings, row.counted, row.same()
        rows.append(
            {
                "decoder": how.decoder,
                "n": how.n,
                "drafter": how.drafter,
                "gamma": str(how.draft_length or "adaptive") if DRAFTERS.lookup(how.drafter).companions else "",
                "passes": counted.passes,
                "draft_calls": counted.draft_calls,
                "calls_per_pass": counted.draft_calls / max(1, counted.passes),
                "nodes_per_pass": counted.nodes_per_pass,
                "tokens_per_pass": counted.tokens_per_pass,
                "acceptance_rate": counted.acceptance_rate,
                "draft_hit_rate": counted.draft_hit_rate,
                "alpha": counted.alpha,
                "same": sum(same) / max(1, len(same)),
            }
        )
    return rows


def alpha(engine: Engine, queries: Sequence[str], drafter: str, *, length: int = 8) -> float:
    """Return the share of a small model's tokens that the target accepts, greedily (alpha of Leviathan et al. 2023).

    Args:
        engine: of the target.
        queries: SMILES.
        drafter: of the small model.
        length: tokens drafted at once.
    """
    settings = DecodeSettings(decoder="greedy", n=1, batch_size=1, drafter=drafter, draft_length=length)
    rate = numbers([result.trace for result in engine.predict(queries, settings)]).alpha
    return min(max(round(rate, 3), 0.001), 0.999)  # a rate of one would draft without end


def keep_alpha(folder: Path, drafter: str, rate: float, *, counted: str) -> Path:
    """Write a rate into the folder of the small model whose drafts the target judges; return the file.

    Args:
        folder: of the target.
        drafter: of the small model.
        rate: as `alpha` counts it.
        counted: by which command.
    """
    return write_alpha(folder / "drafters" / DRAFTERS.lookup(drafter).companions[-1], rate, counted=counted)


def price(small: DraftModel, engine: Engine, nodes: int = 1) -> float:
    """Return the cost ratio c of Leviathan et al.: a run of the small model over a pass of the target, in time."""
    return small.cost()(nodes) / engine.cost()(nodes)
