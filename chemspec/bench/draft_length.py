"""How drafters with a model fare, counted: passes, runs of the small models and tokens a pass, by draft length (paper
T)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from chemspec.draft.learned.small import DraftModel, write_alpha
from chemspec.draft.registry import DRAFTERS
from chemspec.engine.engine import Engine
from chemspec.metrics import numbers
from chemspec.settings import DecodeSettings

Row = dict[str, Any]


def count(
    engine: Engine,
    queries: Sequence[str],
    settings: DecodeSettings,
    *,
    drafters: Sequence[str],
    lengths: Sequence[int],
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[Row]:
    """One row for every drafter with a model and draft length (0: adaptive), and one for every other drafter.

    `same` is the share of queries with the answers of the standard decoder; draws of speculative sampling are others by
    nature, so that it says nothing there.
    """
    work = [
        replace(settings, drafter=name, draft_length=length)
        for name in drafters
        for length in (lengths if DRAFTERS.lookup(name).companions else (0,))
    ]
    plain = engine.predict(queries, replace(settings, drafter="none"))
    rows = []
    for done, item in enumerate(work, 1):
        results = engine.predict(queries, item)
        found = numbers([one.trace for one in results])
        same = sum(
            [answer.smiles for answer in one.hypotheses] == [answer.smiles for answer in other.hypotheses]
            for one, other in zip(results, plain, strict=True)
        )
        rows.append(
            {
                "decoder": item.decoder,
                "n": item.n,
                "drafter": item.drafter,
                "gamma": _gamma(item),
                "passes": found.passes,
                "draft_calls": found.draft_calls,
                "calls_per_pass": found.draft_calls / max(1, found.passes),
                "nodes_per_pass": found.nodes_per_pass,
                "tokens_per_pass": found.tokens_per_pass,
                "acceptance_rate": found.acceptance_rate,
                "draft_hit_rate": found.draft_hit_rate,
                "alpha": found.alpha,
                "same": same / max(1, len(queries)),
            }
        )
        progress(done, len(work))
    return rows


def _gamma(settings: DecodeSettings) -> str:
    if not DRAFTERS.lookup(settings.drafter).companions:
        return ""
    return str(settings.draft_length or "adaptive")


def alpha(engine: Engine, queries: Sequence[str], drafter: str, *, length: int = 8) -> float:
    """The share of a small model's tokens that the target accepts, greedily (alpha of Leviathan et al. 2023), between 0
    and 1."""
    settings = DecodeSettings(decoder="greedy", n=1, batch_size=1, drafter=drafter, draft_length=length)
    found = numbers([one.trace for one in engine.predict(queries, settings)]).alpha
    return min(max(round(found, 3), 0.001), 0.999)  # a rate of one would draft without end


def keep_alpha(folder: Path, drafter: str, found: float, *, counted: str) -> Path:
    """Write a rate into the folder of the small model whose drafts the target judges; returns the file."""
    return write_alpha(folder / "drafters" / DRAFTERS.lookup(drafter).companions[-1], found, counted=counted)


def price(small: DraftModel, engine: Engine, nodes: int = 1) -> float:
    """The cost ratio c of Leviathan et al., measured here: one run of the small model over one pass of the target."""
    return small.cost()(nodes) / engine.cost()(nodes)
