"""Measure the papers' tables and figures in one run, with the same queries and machine for every row, and print them.

`papers.tsv` has the rows: what is measured, `against` which row, the speed-up that a paper reports (`paper`) and how
much of its drafts is accepted, each with its table, and another drafter that the row `needs`. `papers.toml` has other
figures of the papers, and titles and columns of tables. Compared rows alternate query by query, so that other load on
the machine affects all of them alike. A row that runs out of time uses as many queries as it can, in the same order,
and is compared with the standard decoder on these.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chemspec.bench.settings import PapersSettings
from chemspec.bench.speed import describe_machine, read_queries
from chemspec.bench.sweep import Row, Setting, race_settings
from chemspec.engine.engine import Engine
from chemspec.engine.options import loading_options
from chemspec.engine.registry import drafter_megabytes, usable_drafters, weights_megabytes
from chemspec.evaluation.accuracy import RANKS, rank_of_truth, top_accuracies
from chemspec.evaluation.measurements import read_measurements
from chemspec.io import tables
from chemspec.io.writers import result_document
from chemspec.model import checkpoint
from chemspec.plugins import DRAFTERS
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult, Progress, ignore

if TYPE_CHECKING:
    from rich.table import Table

ACCURATE = (*RANKS, 25)
MIN_QUERIES = 30  # fewer queries: a speed-up is shown in brackets, and accuracy is left out
MIN_TIMINGS = 5  # batches needed for a speed-up with an interval
TASKS: tuple[Task, ...] = ("forward", "retro")
TIMED = ("forward", "retro", "curve", "learned")  # tables with timed rows
NO_TRUTH = "Accuracy on the queries of this run is left out: the built-in ones have no answers; give --source."
FIGURES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
with Path(__file__).with_suffix(".tsv").open(encoding="utf-8", newline="") as rows_file:
    ROWS = list(csv.DictReader(rows_file, delimiter="\t"))


def settings_by_table(task: Task, have: Sequence[str]) -> dict[str, list[Setting]]:
    """Return the settings of all rows of a model by table; `have` are the drafters that it can use."""
    by_table: dict[str, list[Setting]] = defaultdict(list)
    for row in ROWS:
        if row["task"] != task or _lacking(row, have):
            continue
        numbers: dict[str, Any] = {name: int(row[name]) for name in ("n", "batch_size", "draft_length", "beta")}
        settings = DecodeSettings(
            decoder=row["decoder"], drafter=row["drafter"], drafting="fixed", tau=float(row["tau"]), **numbers
        )
        facts = {name: row[name] for name in ("group", "label", "paper", "paper_accepted")}
        by_table[row["table"]].append(Setting(row["name"], settings, row["against"], facts))
    return by_table


def _lacking(row: Mapping[str, str], have: Sequence[str]) -> set[str]:
    """Return the drafters with models of their own that a row needs and a model does not have."""
    needed = DRAFTERS.keys() & {row["drafter"], row["needs"]}
    return {name for name in needed if DRAFTERS[name].companions} - set(have)


def omitted_rows(task: Task, have: Sequence[str]) -> str:
    """Return a note on the rows that a model has no drafter for; empty if there are none."""
    missing: dict[str, int] = defaultdict(int)
    for row in ROWS:
        if row["task"] == task and (lacking := _lacking(row, have)):
            missing[" and ".join(sorted(lacking))] += 1
    counted = ", ".join(f"{name} ({count} rows)" for name, count in missing.items())
    remedy = "chemspec train --list has recipes, install-drafter installs them"
    return counted and f"Left out for {task}, which has no such drafter: {counted}; {remedy}."


def measure_tables(suite: PapersSettings, *, progress: Progress = ignore) -> dict[str, Any]:
    """Measure all tables.

    Returns `{"machine", "models", "queries", "notes", "forward", "retro", "curve", "learned", "alone", "accuracy",
    "cards", "speedups"}`: rows of A's tables 2 and 3, of the curve, of learned drafters, of models without drafts, of
    accuracy on these queries and on whole test sets, and for some rows the speed-up of every query, in time and in
    passes.
    """
    engines: dict[Task, Engine] = {task: Engine.load(task, **loading_options(suite)) for task in TASKS}
    usable = {task: usable_drafters(engine.folder) for task, engine in engines.items()}
    work = {task: settings_by_table(task, names) for task, names in usable.items()}
    total, done = sum(len(settings) for planned in work.values() for settings in planned.values()), 0
    report: dict[str, Any] = {**{table: [] for table in (*TIMED, "alone", "accuracy", "cards")}, "speedups": {}}
    held = suite.limit
    notes: list[str] = [note for task, names in usable.items() if (note := omitted_rows(task, names))]
    for task, planned in work.items():
        engine = engines[task]
        reactions = read_queries(engine, suite.source, suite.limit)
        queries = [question.query for question in reactions]
        truth = {question.query: question.answer for question in reactions if question.answer}
        for table, settings in planned.items():
            rows: dict[str, Row] = {}
            groups: dict[str, list[tuple[Engine, Setting]]] = {}  # runs, each with its baseline
            for setting in settings:
                groups.setdefault(setting.baseline or setting.name, []).append((engine, setting))
            for entries in groups.values():
                for row in race_settings(entries, queries, rounds=suite.repeats, seconds=suite.seconds):
                    rows[row.setting.name] = row
                    done += 1
                    progress(done, total)
            _add_table(report, task, table, [rows[setting.name] for setting in settings], truth)
        for row in report["learned"]:
            row.setdefault("weights_mb", drafter_megabytes(engine.folder, row["drafter"]))
        if task == "retro":
            report["alone"] += _undrafted_rows(suite, engine, queries, truth)
        report["cards"] += card_accuracy_rows(engine)
        notes += [NO_TRUTH] if not truth and NO_TRUTH not in notes else []
        held = min(held, len(queries))
    sizes = {row.settings.batch_size for planned in work.values() for part in planned.values() for row in part}
    if large := ", ".join(str(size) for size in sorted(sizes) if size > held):
        notes.append(f"Batches of {large} hold {held} queries here: there are no more.")
    return {
        "machine": describe_machine(suite.threads),
        "models": {engine.name: engine.digest for engine in engines.values()},
        "queries": "random reactions of the standard test sets" if suite.source else "built-in queries",
        "suite": asdict(suite),
        "notes": notes,
        **report,
    }


def _add_table(report: dict[str, Any], task: Task, table: str, rows: Sequence[Row], truth: Mapping[str, str]) -> None:
    """Add a table's rows to the report; for the papers' main tables also accuracy and speed-ups per query."""
    report[table] += [report_row(row, truth) for row in rows]
    if table not in ("forward", "retro"):
        return
    report["accuracy"] += [
        row for each in rows if truth and (row := accuracy_row(task, each, truth))["queries"] >= MIN_QUERIES
    ]
    report["speedups"] |= {
        f"{task}, {row.setting.name}": speedups_per_query(row)
        for row in rows
        if row.baseline and (row.setting.settings.batch_size, row.setting.settings.n) == (1, 1)
    }


def report_row(row: Row, truth: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of the report, compared with its baseline on their common batches.

    `right`: the share of recorded answers among first ones (or samples), for rows of enough queries.
    """
    report, setting = row.report(), row.setting
    if not setting.settings.exact:
        report["acceptance_rate"] = None
    top = _top(row.results, truth, [1]) if truth and len(row.results) >= MIN_QUERIES else {}
    return {
        "name": setting.name,
        **report,
        "drafter": setting.settings.drafts_by,
        "right": top.get("1"),
        **setting.facts,
    }


def speedups_per_query(row: Row) -> list[tuple[float, float]]:
    """Return the speed-up of every query against the baseline, in time and in passes."""
    base = row.baseline or row
    return [
        (before / after, len(slow.trace.passes) / len(fast.trace.passes))
        for before, after, slow, fast in zip(base.seconds, row.seconds, base.results, row.results, strict=False)
    ]


def accuracy_row(task: Task, row: Row, truth: Mapping[str, str]) -> dict[str, Any]:
    """Return the top-k accuracy of a row and its baseline on the same queries, with 95 % intervals."""
    common = min(len(each.results) for each in (row, row.baseline or row))
    ranks = [k for k in ACCURATE if k <= row.setting.settings.n]
    standard = _top(row.baseline.results[:common], truth, ranks) if row.baseline else None
    top = _top(row.results[:common], truth, ranks)
    return {"task": task, "name": row.setting.name, "queries": common, "top": top, "standard": standard}


def _top(results: Sequence[DecodeResult], truth: Mapping[str, str], ranks: Sequence[int]) -> dict[str, Any]:
    """Return the shares of results whose recorded answer has at most each of these ranks."""
    positions = [rank_of_truth(truth[result.query], result_document(result)["hypotheses"]) for result in results]
    return top_accuracies(positions, ranks)


def _undrafted_rows(
    suite: PapersSettings, engine: Engine, queries: Sequence[str], truth: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return T's table 1: the model and its small draft models, each decoding greedily without drafts."""
    folders = {kind: checkpoint.drafter_folder(engine.folder, kind) for kind in ("ar", "medium")}
    small = [kind for kind, folder in folders.items() if (folder / "config.json").is_file()]
    engines = [engine, *(Engine.load(folders[kind], **loading_options(suite)) for kind in small)]
    plain = DecodeSettings(decoder="greedy", n=1, batch_size=1, drafting="fixed", drafter="none")
    names = ["the model", *small]
    entries = [
        (each, Setting(name, plain, names[0] * (each is not engine), {"paper": FIGURES["alone"].get(name, "")}))
        for each, name in zip(engines, names, strict=True)
    ]
    rows = race_settings(entries, queries, rounds=suite.repeats, seconds=suite.seconds)
    return [
        {**report_row(row, truth), "weights_mb": weights_megabytes(each.folder)}
        for row, each in zip(rows, engines, strict=True)
    ]


def card_accuracy_rows(engine: Engine) -> list[dict[str, Any]]:
    """Return A's tables 1 and 4: the paper's accuracy, and that of `evaluate` for these weights, if measured."""
    counted = read_measurements(engine.folder).get("accuracy", {})
    if counted.get("digest") != engine.digest:
        return []
    paper = FIGURES["accuracy"][engine.task]
    top = {k: {"value": percent / 100} for k, percent in paper["top"].items()}
    name = f"{engine.name}, beam of {counted['settings']['n']}, {counted['reactions']:,} reactions"
    command = re.sub(r"--source \S+", "--source FOLDER", counted["command"])
    ours = {"command": command, "date": counted["date"], "top": counted["top"]}
    return [{"name": paper["name"], "top": top}, {"name": name, **ours}]


# --- tables and files ------------------------------------------------------------------------------


def terminal_tables(report: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the tables for a terminal of 100 columns."""
    for name, columns in FIGURES["narrow"].items():
        rows: list[dict[str, Any]] = []
        group = None
        for row in map(display_row, report[name]):
            if row.get("group") != group:
                group = row["group"]
                rows.append({**dict.fromkeys(row), "short": group})
            rows.append({**row, "short": f"  {row.get('label')}"})
        if rows:
            yield tables.terminal(columns, rows, title=FIGURES["titles"][name])


def display_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the report with the texts for its columns."""
    texts = dict(row)
    if "timings" in row:
        batches = f" in {row['timings']}" if row["timings"] != row["queries"] else ""  # batches of several queries
        texts |= {"answered": f"{row['queries']}{batches}", "faster": format_speedup(row)}
        texts["relaxed"] = None if row["exact"] else " (relaxed)"
    if "right" in row:
        texts["right_share"] = row["right"] and _format_percent(row["right"])
        texts["right_percent"] = row["right"] and 100 * row["right"]["value"]
    if "attempts_ms" in row:
        means = row["attempts_ms"], row["attempts_sd"]
        texts["attempts"] = None if means[0] is None else f"{means[0]:.2f} ± {means[1]:.2f}"
    if top := row.get("top"):
        texts |= {f"top-{k}": _format_percent(top[str(k)]) if str(k) in top else None for k in ACCURATE}
        base = row.get("standard")
        values = [] if base is None else [f"{100 * share['value']:.1f}" for share in base.values()]
        texts["of_standard"] = "equal" if base == top else " / ".join(values)
    return texts


def format_speedup(row: Mapping[str, Any]) -> str | None:
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
