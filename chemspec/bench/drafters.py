"""Count what each drafter saves: passes, tokens, nodes, and the memory that its model takes. No clock is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chemspec.bench.sweep import Progress, Setting, sweep
from chemspec.engine.engine import Engine
from chemspec.engine.registry import drafter_megabytes
from chemspec.io import tables
from chemspec.model import checkpoint
from chemspec.model.checkpoint import own_tensors
from chemspec.settings import DecodeSettings


def count(
    engine: Engine,
    queries: Sequence[str],
    drafters: Sequence[str],
    *,
    widths: Sequence[int] = (1,),
    batch_size: int = 1,
    progress: Progress = lambda *_: None,
) -> list[dict[str, Any]]:
    """Answer queries with every drafter and count.

    Args:
        engine: of the target.
        queries: SMILES.
        drafters: names; the answers of all are compared with those of the first.
        widths: of the beams; 1 is greedy.
        batch_size: queries a model call.
        progress: is told how many rows of how many are done.

    Returns:
        A row for every width and drafter. `megabytes` are those of the drafter's own weights in fp32 (tables 8 and 9 of
        Xia et al.), 0 where it has none. `same` says whether all answers were those of the first drafter.
    """
    settings = []
    for width in widths:
        plain = DecodeSettings(decoder="greedy" if width == 1 else "beam", n=width, batch_size=batch_size)
        names = {drafter: f"{drafter}, n={width}" for drafter in drafters}
        settings += [
            Setting(name, replace(plain, drafter=drafter), names[drafters[0]]) for drafter, name in names.items()
        ]
    rows = []
    for row in sweep(engine, queries, settings, progress=progress):
        how, counted = row.setting.settings, row.counted
        rows.append(
            {
                "task": engine.task,
                "decoder": how.decoder,
                "n": how.n,
                "drafter": how.drafter,
                "queries": len(queries),
                "passes_per_query": counted.passes_per_query,
                "tokens_per_pass": counted.tokens_per_pass,
                "acceptance_rate": counted.acceptance_rate,
                "draft_hit_rate": counted.draft_hit_rate,
                "nodes_per_pass": counted.nodes_per_pass,
                "megabytes": drafter_megabytes(engine.folder, how.drafter),
                "same": all(row.same()),
            }
        )
    return rows


def target_megabytes(engine: Engine) -> float:
    """Return the size of the target's weights in fp32."""
    model = checkpoint.load(engine.folder).model
    return 4 * sum(tensor.numel() for tensor in own_tensors(model).values()) / 1e6


COLUMNS = {
    "task": "{task}",
    "decoder": "{decoder}{width}",
    "drafter": "{drafter}",
    "passes per query": "{passes_per_query:.2f}",
    "tokens per pass": "{tokens_per_pass:.2f}",
    "acceptance rate": "{acceptance_rate:.0%}",
    "hit rate": "{draft_hit_rate:.0%}",
    "nodes per pass": "{nodes_per_pass:.1f}",
    "weights (fp32)": "{megabytes:.1f} MB ({part:.0%} of the target's)",
}


def markdown(rows: Sequence[dict[str, Any]], target: float) -> str:
    """Return the rows as a table; `target` are the megabytes of the target's weights."""
    more = ({"width": row["n"] if row["n"] > 1 else None, "part": row["megabytes"] / target} for row in rows)
    return tables.markdown(COLUMNS, [row | extra for row, extra in zip(rows, more, strict=True)])
