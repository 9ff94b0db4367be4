"""What a pass of the triton runtime should take, from what it launches, beside a column for what is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chemspec.bench.gpu.answers import SHAPES
from chemspec.settings import preset

SOURCE = 40  # tokens of a query
HEAD = "| queries x nodes | launches | MB | GFLOP | estimated ms | measured ms | encoder, estimated ms |"


def table(name: str, vocabulary: int, measured: Sequence[dict[str, Any]] = (), *, dtype: str = "fp32") -> str:
    """Return a table as Markdown.

    Args:
        name: of a preset.
        vocabulary: tokens of the model.
        measured: rows of `answers.time_passes`, each with its runtime and precision; those of the triton runtime
            in this precision count.
        dtype: precision.
    """
    from chemspec.model.runners.triton.resources import Speeds, launches
    from chemspec.model.runners.triton.runner import rounded

    config, speeds = preset(name, vocab_size=vocabulary), Speeds()
    times = {
        (row["queries"], row["nodes"]): row["ms"]
        for row in measured
        if (row.get("runtime"), row.get("dtype", dtype)) == ("triton", dtype) and "ms" in row
    }
    lines = [HEAD, "|---|---|---|---|---|---|---|"]
    for queries, nodes in SHAPES:
        found = launches(config, rounded(queries * nodes), dtype=dtype, watched=False)
        opened = launches(config, rounded(queries * SOURCE), dtype=dtype, encoder=True)
        told = times.get((queries, nodes))
        cells = (
            f"{queries} x {nodes}",
            len(found),
            f"{sum(one.bytes for one in found) / 1e6:.0f}",
            f"{sum(one.operations for one in found) / 1e9:.1f}",
            f"{1e3 * speeds.seconds(found):.2f}",
            "" if told is None else f"{told:.2f}",
            f"{1e3 * speeds.seconds(opened):.2f}",
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)
