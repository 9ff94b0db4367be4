"""Table and summary sentence of a speed report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chemspec.io import tables

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = {
    "task": "{task}",
    "decoder": "{decoder}",
    "dtype": "{dtype}",
    "drafter": "{drafter}",
    "median ms": "{median_ms:.1f}",
    "speed-up (95 %)": "{faster}",
    "mean passes": "{passes_per_query:.1f}",
    "same answers": "{same}",
}
UNDRAFTED = "nothing drafted"


def build_table(report: Mapping[str, Any]) -> Table:
    """Build the table for a terminal, in 100 columns unless batch sizes differ."""
    rows = [_narrow_row(row) for row in report["rows"]]
    batches = {"batch": "{batch}"} if len({row["batch"] for row in rows}) > 1 else {}
    return tables.terminal({**batches, **COLUMNS}, rows)


def _narrow_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for the narrow table; a baseline has no speed-up, nor has a search without drafts."""
    if row["drafter"] == "none":
        return {**row, "decoder": _decoder_label(row), "faster": None, "same": None}
    if row.get("drafted_per_query") == 0:  # as where drafts would not pay
        interval = UNDRAFTED
    else:
        interval = f"{row['speedup']:.2f} ({row['speedup_low']:.2f} to {row['speedup_high']:.2f})"
    same = f"{_count_identical(row)} of {row['queries']}"
    return {**row, "decoder": _decoder_label(row), "faster": interval, "same": same}


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
