"""What each drafter saves, counted: passes, tokens, nodes, and the memory that its model takes. No clock is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from chemspec.engine.engine import Engine
from chemspec.engine.registry import drafter_megabytes
from chemspec.metrics import numbers
from chemspec.model import checkpoint
from chemspec.model.checkpoint import own_tensors
from chemspec.settings import DecodeSettings

Row = dict[str, Any]


def tally(
    engine: Engine,
    queries: Sequence[str],
    drafters: Sequence[str],
    *,
    widths: Sequence[int] = (1,),
    batch_size: int = 1,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[Row]:
    """Answer queries with every drafter and count; width 1 is greedy, more is beam search.

    Returns:
        A row for every width and drafter. `megabytes` are those of the drafter's own weights in fp32 (tables 8 and 9 of
        Xia
        et al.), 0 where it has none. `same` says whether all answers were those of the first drafter.
    """
    rows: list[Row] = []
    total = len(widths) * len(drafters) * len(queries)
    for width in widths:
        first: list[list[str]] = []
        for drafter in drafters:
            how = DecodeSettings(decoder="greedy" if width == 1 else "beam", n=width, batch_size=batch_size)
            before = len(rows) * len(queries)
            results = engine.predict(
                queries,
                replace(how, drafter=drafter),
                progress=lambda done, before=before: progress(before + done, total),  # type: ignore[misc]
            )
            answers = [[item.smiles for item in result.hypotheses] for result in results]
            first = first or answers
            found = numbers([result.trace for result in results])
            megabytes = drafter_megabytes(engine.folder, drafter)
            rows.append(
                {
                    "task": engine.task,
                    "decoder": how.decoder,
                    "n": width,
                    "drafter": drafter,
                    "queries": len(queries),
                    "passes_per_query": found.passes_per_query,
                    "tokens_per_pass": found.tokens_per_pass,
                    "acceptance_rate": found.acceptance_rate,
                    "draft_hit_rate": found.draft_hit_rate,
                    "nodes_per_pass": found.nodes_per_pass,
                    "megabytes": megabytes,
                    "same": answers == first,
                }
            )
    return rows


def target_megabytes(engine: Engine) -> float:
    """Of the target's weights in fp32."""
    model = checkpoint.load(engine.folder).model
    return 4 * sum(tensor.numel() for tensor in own_tensors(model).values()) / 1e6


def markdown(rows: Sequence[Row], target: float) -> str:
    """The rows as a table; `target` are the megabytes of the target's weights."""
    head = (
        "| task | decoder | drafter | passes per query | tokens per pass | acceptance rate | hit rate | nodes per pass | weights (fp32) |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(
        f"| {row['task']} | {row['decoder']}{row['n'] if row['n'] > 1 else ''} | {row['drafter']} | {row['passes_per_query']:.2f} "
        f"| {row['tokens_per_pass']:.2f} | {100 * row['acceptance_rate']:.0f}% | {100 * row['draft_hit_rate']:.0f}% "
        f"| {row['nodes_per_pass']:.1f} | {row['megabytes']:.1f} MB ({100 * row['megabytes'] / target:.0f}% of the target's) |\n"
        for row in rows
    )
