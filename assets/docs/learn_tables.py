"""Write the tables behind the charts of How it works from the measurements: `python assets/docs/learn_tables.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

DOCS = Path(__file__).resolve().parent
LEARN = DOCS.parent / "learn"


def latency() -> str:
    """Return latency and throughput of the forward model by queries at once, as measured for the papers' tables."""
    rows = pd.read_csv(DOCS / "charts" / "papers.csv")
    rows = rows[(rows["table"] == "curve") & rows["drafter"].isin(["none", "auto"])]
    columns = {"drafter": "drafter", "batch": "batch", "latency_ms": "latency", "queries_per_second": "throughput"}
    about = json.loads((DOCS / "charts" / "papers.json").read_text(encoding="utf-8"))
    machine = about["machine"]
    threads = "one thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    note = (
        f"{about['queries']}, {int(rows['queries'].iloc[0])} of the forward model, greedy, fp32; {machine['cpu']}, "
        f"{threads}, {machine['date']}; `{about['command']}`"
    )
    return f"# {note}\n" + rows[[*columns]].rename(columns=columns).round(2).to_csv(index=False, lineterminator="\n")


def speedups() -> str:
    """Return the tokens a pass of every query, which is how many times fewer passes it takes than without drafts."""
    rows = pd.read_csv(DOCS / "raw" / "entropy.csv")[["task", "query", "copy", "mixed"]]
    note = (
        f"{len(rows)} built-in queries, greedy, drafts of fixed size; counts, which no machine changes; 2026-11-28; "
        "`python tests/programs/entropy.py`"
    )
    return f"# {note}\n" + rows.round(2).to_csv(index=False, lineterminator="\n")


TABLES = {"latency": latency, "speedups": speedups}

if __name__ == "__main__":
    for name, write in TABLES.items():
        (LEARN / f"{name}.csv").write_text(write(), encoding="utf-8")
