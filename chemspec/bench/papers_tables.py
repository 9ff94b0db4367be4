"""Format the report of `papers`: narrow tables for a terminal, and files of numbers."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chemspec.bench.papers import ACCURATE, MIN_QUERIES, ROWS
from chemspec.io import tables

if TYPE_CHECKING:
    from rich.table import Table

TIMED = ("forward", "retro", "curve", "learned")  # tables with timed rows
MIN_TIMINGS = 5  # batches needed for a speed-up with an interval
TITLES = {
    "forward": "Greedy product prediction (A, table 2, whose B=32 is 15.0 times as fast as B=1)",
    "retro": "Beams for retrosynthesis (A, table 3)",
    "curve": "Latency and throughput by batch size, forward, greedy (X, figure 5)",
    "learned": "Learned drafters (X, tables 1 to 4, 6 and 14; T, tables 2 to 5)",
    "alone": "The models alone, greedy (T, table 1)",
    "memory": "Peak memory by batch size, one process each (X, tables 8 and 10: AR / SpecDec / added, MB)",
    "cards": "Accuracy on whole test sets, from the models' cards (A, tables 1 and 4)",
    "accuracy": "Accuracy on the queries of this run (A, table 4)",
}
LEGEND = (
    "times faster: than the standard row of its group, the median over queries with its 95 % interval; [in brackets]: "
    "fewer than 30 queries, or fewer than five timed batches, which have no interval.",
    "paper: A on an H100 without a key-value cache; X on a P100, against greedy decoding; T with T5 on translation.",
    "accepted: of the answer's tokens; Tok.: tokens a pass; hits: of the drafted tokens (T's alpha); k, g: draft "
    "length.",
    "nodes: a pass; lists, first, same: share of queries with the answers, or the first answer, of the standard row.",
)


def terminal_tables(report: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the tables for a terminal of 100 columns."""
    for name in TIMED:
        rows: list[dict[str, Any]] = []
        group = None
        for row in map(display_row, report[name]):
            within = group_row(row, name) if name != "curve" else {"group": row["drafter"], "name": f"B={row['batch']}"}
            if within["group"] != group:
                group = within["group"]
                rows.append({**dict.fromkeys(row), "short": group})
            rows.append({**row, "short": f"  {within['name']}"})
        yield tables.terminal(ROWS["narrow"][name], rows, title=TITLES[name])
    for name in ("alone", "memory", "cards", "accuracy"):
        if report[name]:
            left_out = ("task", "top-2", "top-25")
            columns = {key: form for key, form in ROWS["columns"][name].items() if key not in left_out}
            yield tables.terminal(columns, map(display_row, report[name]), title=TITLES[name])


def display_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the report with the texts for its columns."""
    texts = dict(row)
    if "timings" in row:
        batches = f" in {row['timings']}" if row["timings"] != row["queries"] else ""  # with several queries each
        texts |= {"answered": f"{row['queries']}{batches}", "faster": _format_speedup(row)}
        texts["relaxed"] = None if row["exact"] else " (relaxed)"
    if "right" in row:
        texts["right_share"] = row["right"] and _format_percent(row["right"])
    if top := row.get("top"):
        texts |= {f"top-{k}": _format_percent(top[str(k)]) if str(k) in top else None for k in ACCURATE}
        base = row.get("standard")
        values = [] if base is None else [f"{100 * share['value']:.1f}" for share in base.values()]
        texts["of_standard"] = "equal" if base == top else " / ".join(values)
    return texts


def _format_speedup(row: Mapping[str, Any]) -> str | None:
    """Format a speed-up with its interval; in brackets with few queries, without interval with few timings."""
    if row["speedup"] is None:
        return None
    if row["timings"] < MIN_TIMINGS:
        return f"[{row['speedup']:.2f}]"
    text = f"{row['speedup']:.2f} ({row['speedup_low']:.2f}-{row['speedup_high']:.2f})"
    return f"[{text}]" if row["queries"] < MIN_QUERIES else text


def _format_percent(share: Mapping[str, float]) -> str:
    text = f"{100 * share['value']:.1f}"
    return text + f" ({100 * share['low']:.0f}-{100 * share['high']:.0f})" if "low" in share else text


def group_row(row: Mapping[str, Any], table: str) -> dict[str, Any]:
    """Return the group of a row, its name within it, its median and quartiles, and these as text."""
    group, _, name = row["name"].partition(", ")
    if table == "forward":
        group, name = f"batch {row['batch']}", row["name"].rpartition(", B=")[0]
    elif table == "learned":
        group, _, name = row["name"].rpartition(", ")
        if group.endswith("speculative sampling"):
            group, name = f"{row['name'].split(', ')[0]}, sampling", f"speculative, {name}"
    speedup = "" if row["speedup"] is None else f" ({row['speedup']:.2f}x)"
    words = f"{row['median_ms']:.1f} ms{speedup}"
    numbers = {"median": row["median_ms"], "low": row["q1_ms"], "high": row["q3_ms"]}
    return {"group": group, "name": name, **numbers, "words": words}


def write_report(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the report as papers.json, and its timed rows as papers.csv; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "papers.json", folder / "papers.csv"]
    files[0].write_text(json.dumps(report, default=str) + "\n", encoding="utf-8")
    timed = [{"table": table, **row} for table in TIMED for row in report[table]]
    with files[1].open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in timed for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(timed)
    return files
