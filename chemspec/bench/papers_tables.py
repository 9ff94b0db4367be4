"""Print what `papers` measured: narrow tables for a terminal, a section of a page, charts, and files of numbers."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chemspec.bench.charts import charts, grouped, svg
from chemspec.bench.papers import ACCURATE, FEW, NO_TRUTH, ROWS
from chemspec.io import tables
from chemspec.metrics import Spread

if TYPE_CHECKING:
    from rich.table import Table

BEGIN, END = "<!-- chemspec bench papers: begin -->", "<!-- end -->"
TIMED = ("forward", "retro", "curve", "learned")  # the tables of rows that were timed
ENOUGH = 5  # timed batches of a speed-up with an interval
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
    "fewer than 30 queries or five timed batches.",
    "paper: A on an H100 without a key-value cache; X on a P100, against greedy decoding; T with T5 on translation.",
    "accepted: of the answer's tokens; Tok.: tokens a pass; hits: of the drafted tokens (T's alpha); k, g: draft "
    "length.",
    "nodes: a pass; lists, first, same: share of queries with the answers, or the first answer, of the standard row.",
)


def terminal(report: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the tables for a terminal of 100 columns."""
    for name in TIMED:
        rows: list[dict[str, Any]] = []
        group = None
        for row in map(_shown, report[name]):
            within = grouped(row, name) if name != "curve" else {"group": row["drafter"], "name": f"B={row['batch']}"}
            if within["group"] != group:
                group = within["group"]
                rows.append({**dict.fromkeys(row), "short": group})
            rows.append({**row, "short": f"  {within['name']}"})
        yield tables.terminal(ROWS["narrow"][name], rows, title=TITLES[name])
    for name in ("alone", "memory", "cards", "accuracy"):
        if report[name]:
            columns = {
                key: form for key, form in ROWS["columns"][name].items() if key not in ("task", "top-2", "top-25")
            }
            yield tables.terminal(columns, map(_shown, report[name]), title=TITLES[name])


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the report with the texts that its columns need."""
    shown = dict(row)
    if "timings" in row:
        shown |= {"answered": _answered(row), "faster": _faster(row), "relaxed": None if row["exact"] else " (relaxed)"}
    if "right" in row:
        shown["right_share"] = row["right"] and _share(row["right"])
    if top := row.get("top"):
        shown |= {f"top-{k}": _share(top[str(k)]) if str(k) in top else None for k in ACCURATE}
        base = row.get("standard")
        values = [] if base is None else [f"{100 * share['value']:.1f}" for share in base.values()]
        shown["of_standard"] = "equal" if base == top else " / ".join(values)
    return shown


def _answered(row: Mapping[str, Any]) -> str:
    """Return how many queries a row answered, and in how many batches where these hold several."""
    return str(row["queries"]) if row["timings"] == row["queries"] else f"{row['queries']} in {row['timings']}"


def _faster(row: Mapping[str, Any]) -> str | None:
    """Return a speed-up with its interval; where it rests on little, in brackets and without."""
    if row["speedup"] is None:
        return None
    if row["queries"] < FEW or row["timings"] < ENOUGH:
        return f"[{row['speedup']:.2f}]"
    return f"{row['speedup']:.2f} ({row['speedup_low']:.2f}-{row['speedup_high']:.2f})"


def _share(share: Mapping[str, float]) -> str:
    """Return a proportion in per cent, with its interval where it has one."""
    text = f"{100 * share['value']:.1f}"
    return text + f" ({100 * share['low']:.0f}-{100 * share['high']:.0f})" if "low" in share else text


# --- files ---------------------------------------------------------------------------------------


def write(report: Mapping[str, Any], command: str, out: Path) -> list[Path]:
    """Draw the charts into `out`/charts, write the numbers beside them and put the tables into `out`/benchmarks.md.

    Only what stands between the two marks of that page is replaced; without marks it goes to the end.

    Raises:
        ValueError: if the page has a first mark but no second.
    """
    folder, page = out / "charts", out / "benchmarks.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    drawn = charts(report)
    alts = {name: words for name, (_, words) in drawn.items()}
    text = _put(text, section(report, command, alts), page)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, (chart, _) in drawn.items():
        files.append(folder / f"{name}.svg")
        files[-1].write_text(svg(chart), encoding="utf-8")
    files += [folder / "papers.json", folder / "papers.csv"]
    files[-2].write_text(json.dumps(report, default=str) + "\n", encoding="utf-8")
    timed = [{"table": table, **row} for table in TIMED for row in report[table]]
    with files[-1].open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in timed for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(timed)
    page.write_text(text, encoding="utf-8")
    return [*files, page]


def _put(text: str, content: str, page: Path) -> str:
    whole = f"{BEGIN}\n{content}\n{END}"
    if BEGIN not in text:
        return f"{text.rstrip()}\n\n{whole}\n" if text.strip() else whole + "\n"
    before, _, rest = text.partition(BEGIN)
    if END not in rest:
        raise ValueError(f"{page} has the line {BEGIN!r}, but no {END!r} after it; put one there")
    return before + whole + rest.partition(END)[2]


def section(report: Mapping[str, Any], command: str, alts: Mapping[str, str]) -> str:
    """Return the section of the page, without its marks.

    Args:
        report: of `papers.run`.
        command: that gave it.
        alts: what each chart shows, by name.
    """
    columns = ROWS["columns"]
    kinds = {"forward": "speed", "retro": "speed"}
    drawn = {name: _table(columns[kinds.get(name, name)], report[name]) for name in TITLES}
    if not report["accuracy"]:
        drawn["accuracy"] = NO_TRUTH if NO_TRUTH in report["notes"] else f"No row has {FEW} queries."
    counted = [f"`{row['command']}` ({row['date']})" for row in report["cards"] if "command" in row]
    template = Path(__file__).with_name("papers.md").read_text(encoding="utf-8").rstrip()
    return template.format(
        **drawn,
        command=command,
        machine=", ".join(f"{name} {value}" for name, value in report["machine"].items() if value is not None),
        models=" and ".join(f"{name} {digest}" for name, digest in report["models"].items()),
        queries=report["queries"],
        limit=report["suite"]["limit"],
        seconds=report["suite"]["seconds"],
        notes=" ".join(note for note in report["notes"] if note != NO_TRUTH),
        counted="; ".join(counted) or "nothing, for these weights",
        single=tables.markdown(columns["single"], [_single(*pair) for pair in report["speedups"].items()]),
        chart={name: f"![{words}](charts/{name}.svg)" for name, words in alts.items()},
    )


def _table(columns: tables.Columns, rows: Iterable[Mapping[str, Any]]) -> str:
    return tables.markdown(columns, map(_shown, rows))


def _single(name: str, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    time, passes = (Spread.of(pair[place] for pair in pairs) for place in (0, 1))
    every = [pair[0] for pair in pairs]
    return {"name": name, "time": time, "passes": passes, "least": min(every), "most": max(every)}
