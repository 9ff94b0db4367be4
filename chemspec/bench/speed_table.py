"""The table of what `speed` measured, and a sentence on it."""

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
    "ms": "{median_ms:.1f}",
    "times faster": "{faster}",
    "passes": "{passes_per_query:.1f}",
    "same answers": "{same}",
}
VARYING = {"engine": "{engine}", "batch": "{batch}"}  # columns of a narrow table where there are several


def table(report: Mapping[str, Any]) -> Table:
    """Return the report for a terminal, in 100 columns unless programs and batch sizes differ."""
    rows = [_short(row) for row in report["rows"]]
    varying = {name: form for name, form in VARYING.items() if len({row[name] for row in rows}) > 1}
    return tables.terminal({**varying, **COLUMNS}, rows, remarks=_remarks(report))


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for the narrow table; one that others are compared with has no gain of its own."""
    compared = row["speedup"] is not None and not _is_standard(row)
    interval = f"{row['speedup']:.2f} ({row['speedup_low']:.2f} to {row['speedup_high']:.2f})" if compared else None
    same = f"{_same(row)} of {row['queries']}" if not _is_standard(row) else None
    return {**row, "decoder": _decoder(row), "faster": interval, "same": same}


def sentence(report: Mapping[str, Any]) -> str:
    """Return what drafts brought, the least and the largest gain of each decoder; empty where nothing was drafted."""
    drafted = [row for row in report["rows"] if row["engine"] == "chemspec" and not _is_standard(row)]
    gains: dict[str, list[float]] = {}
    for row in drafted:
        if row["speedup"] is not None:
            gains.setdefault(_decoder(row), []).append(row["speedup"])
    if not gains:
        return ""
    told = [f"{decoder} {_from_to(values)}" for decoder, values in gains.items()]
    lists, same = sum(row["queries"] for row in drafted), sum(map(_same, drafted))
    gain = ", ".join(told)
    return f"Speed with drafts, in multiples of that without: {gain}; {same} of {lists} lists of answers are the same."


def _is_standard(row: Mapping[str, Any]) -> bool:
    """Return whether a row is chemspec's own without drafts, with which others are compared."""
    return bool(row["engine"] == "chemspec" and row["drafter"] == "none")


def _decoder(row: Mapping[str, Any]) -> str:
    return f"beam of {row['n']}" if row["decoder"] == "beam" else str(row["decoder"])


def _same(row: Mapping[str, Any]) -> int:
    return round(float(row["same_list"]) * int(row["queries"]))


def _from_to(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _remarks(report: Mapping[str, Any]) -> list[str]:
    return [text for text in dict.fromkeys([*report["notes"], *(row["note"] for row in report["rows"])]) if text]
