"""Measure the papers' tables and figures in one run, with the same queries and machine for every row.

`papers.toml` defines the rows and the papers' figures. Compared rows alternate query by query, so that other load on
the machine affects all of them alike. A row that runs out of time uses as many queries as it can, in the same order,
and is compared with the standard decoder on these.
"""

import re
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch

from chemspec import evaluation
from chemspec.bench.counts import target_megabytes
from chemspec.bench.settings import PapersSettings
from chemspec.bench.speed import describe_machine, peak_memory_mb, read_queries, reset_peak_memory
from chemspec.bench.sweep import Row, Setting, paired_ratio, race_settings
from chemspec.engine.engine import Engine
from chemspec.engine.registry import drafter_megabytes, usable_drafters
from chemspec.evaluation.accuracy import RANKS, rank_of_truth, top_accuracies
from chemspec.io.writers import result_document
from chemspec.metrics import Spread
from chemspec.model.checkpoint import drafter_folder
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, Task, loading_options
from chemspec.types import Progress, ignore

ACCURATE = (*RANKS, 25)
MIN_QUERIES = 30  # with fewer queries a speed-up is shown in brackets, and accuracy is left out
TASKS: tuple[Task, ...] = ("forward", "retro")
NO_TRUTH = "Accuracy on the queries of this run is left out: the built-in ones have no answers; give --source."
ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PLAIN: dict[str, Any] = {"decoder": "greedy", "n": 1, "batch_size": 1, "drafting": "fixed"}
ABOUT = ("name", "against", "paper", "paper_accepted", "needs")  # keys of a row that are not decoding settings


def read_table_settings(table: str, have: Iterable[str] = (), **common: Any) -> list[Setting]:
    """Return the rows of a table that the model's drafters allow; a list in `common` gives one row per value."""
    learned = {name for name, spec in DRAFTERS.items() if spec.companions}
    settings = []
    for row in ROWS[table]:
        options = {**row, **common}
        name, against, paper, accepted, needs = (options.pop(key, "") for key in ABOUT)
        lists = [value if isinstance(value, list) else [value] for value in options.values()]
        for values in product(*lists):
            decode_settings = DecodeSettings(**{**PLAIN, **dict(zip(options, values, strict=True))})
            if not {decode_settings.drafter, needs} & learned <= set(have):
                continue
            fields = asdict(decode_settings)
            settings.append(
                Setting(
                    name.format(**fields),
                    decode_settings,
                    against.format(**fields),
                    _published_value(paper, decode_settings),
                    _published_value(accepted, decode_settings),
                )
            )
    return settings


def _published_value(paper: str | Mapping[str, Mapping[str, str]], settings: DecodeSettings) -> str:
    """Return a paper's figure for a row, which may depend on a setting."""
    if isinstance(paper, str):
        return paper
    ((setting, texts),) = paper.items()
    return texts.get(str(getattr(settings, setting)), "")


def settings_by_table(suite: PapersSettings, task: Task, have: Sequence[str]) -> dict[str, list[Setting]]:
    """Return the settings of all rows of a model by table; `have` are the drafters that it can use."""
    learned = [
        setting._replace(name=f"{task}, {setting.name}", baseline=setting.baseline and f"{task}, {setting.baseline}")
        for setting in read_table_settings("learned", have)
    ]
    if task == "forward":
        curve = read_table_settings("curve", batch_size=list(suite.batches))
        return {"forward": read_table_settings("forward"), "curve": curve, "learned": learned}
    beams = [setting for n in suite.widths for setting in read_table_settings("beams", n=n)]
    return {"retro": read_table_settings("retro") + beams, "learned": learned}


def measure_tables(suite: PapersSettings, *, progress: Progress = ignore) -> dict[str, Any]:
    """Measure all tables.

    Returns `{"machine", "models", "queries", "notes", "forward", "retro", "curve", "learned", "alone", "memory",
    "accuracy", "cards", "speedups"}`: rows of A's tables 2 and 3, of the curve, of learned drafters, of models without
    drafts, of peak memory, of accuracy on these queries and on whole test sets, and for some rows the speed-up of every
    query, in time and in passes.
    """
    engines: dict[Task, Engine] = {task: Engine.load(task, **loading_options(suite)) for task in TASKS}
    work = {task: settings_by_table(suite, task, usable_drafters(engine.folder)) for task, engine in engines.items()}
    total, done = sum(len(settings) for planned in work.values() for settings in planned.values()), 0
    tables = ("forward", "retro", "curve", "learned", "alone", "memory", "accuracy", "cards")
    report: dict[str, Any] = {**{table: [] for table in tables}, "speedups": {}}
    held = suite.limit
    notes: list[str] = []
    for task, planned in work.items():
        engine = engines[task]
        reactions = read_queries(engine, suite.source, suite.limit)
        queries = [question.query for question in reactions]
        truth = {question.query: question.answer for question in reactions if question.answer}
        for table, settings in planned.items():
            rows: dict[str, Row] = {}
            groups: dict[str, list[tuple[Engine, Setting]]] = {}  # with their baseline
            for setting in settings:
                groups.setdefault(setting.baseline or setting.name, []).append((engine, setting))
            for entries in groups.values():
                for row in race_settings(entries, queries, seconds=suite.seconds):
                    rows[row.setting.name] = row
                    done += 1
                    progress(done, total)
            _add_table(report, task, table, [rows[setting.name] for setting in settings], truth)
        for row in report["learned"]:
            row.setdefault("weights_mb", drafter_megabytes(engine.folder, row["drafter"]))
        if task == "retro":
            report["alone"] += _undrafted_rows(suite, engine, queries, truth)
            report["memory"] += _memory_rows(suite, engine, queries)
        report["cards"] += _card_accuracy_rows(engine)
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
    report[table] += map(_report_row, rows)
    if table not in ("forward", "retro"):
        return
    report["accuracy"] += [
        row for each in rows if truth and (row := _accuracy_row(task, each, truth))["queries"] >= MIN_QUERIES
    ]
    report["speedups"] |= {
        f"{task}, {row.setting.name}": _speedups_per_query(row)
        for row in rows
        if row.baseline and (row.setting.settings.batch_size, row.setting.settings.n) == (1, 1)
    }


def _report_row(row: Row) -> dict[str, Any]:
    """Return a row of the report, compared with its baseline on their common batches."""
    times, counted, settings = row.times, row.counted, row.setting.settings
    speedup: tuple[float | None, ...] = (None,) * 3
    same = first = None
    if base := row.baseline:
        speedup = paired_ratio(base.per_query, row.per_query)
        if DECODERS[settings.decoder].drafts != "sampled":  # whose samples differ
            same, first = fmean(row.same()), fmean(row.same(first=True))
    return {
        "name": row.setting.name,
        "decoder": settings.decoder,
        "n": settings.n,
        "drafter": settings.drafts_by,
        "batch": settings.batch_size,
        "exact": settings.exact,
        "queries": len(row.results),
        "timings": len(row.seconds),
        "median_ms": times.median,
        "q1_ms": times.low,
        "q3_ms": times.high,
        "latency_ms": Spread.from_values(1e3 * spent for spent in row.seconds).median,
        "queries_per_second": sum(row.sizes) / sum(row.seconds),
        **dict(zip(("speedup", "speedup_low", "speedup_high"), speedup, strict=True)),
        "paper": row.setting.paper,
        "paper_accepted": row.setting.paper_accepted,
        "same_list": same,
        "same_first": first,
        **row.pick("passes_per_query", "nodes_per_pass", "tokens_per_pass"),
        "acceptance_rate": counted.acceptance_rate if settings.exact else None,
        "acceptance_length": counted.acceptance_length,
        "draft_hit_rate": counted.draft_hit_rate,
        "draft_ms_per_pass": 1e3 * counted.draft_seconds / counted.passes,
        "calls_per_query": counted.draft_calls / counted.queries,
    }


def _speedups_per_query(row: Row) -> list[tuple[float, float]]:
    """Return the speed-up of every query against the baseline, in time and in passes."""
    base = row.baseline or row
    return [
        (before / after, len(slow.trace.passes) / len(fast.trace.passes))
        for before, after, slow, fast in zip(base.seconds, row.seconds, base.results, row.results, strict=False)
    ]


def _accuracy_row(task: Task, row: Row, truth: Mapping[str, str]) -> dict[str, Any]:
    """Return the top-k accuracy of a row and its baseline on the same queries, with 95 % intervals."""
    common = min(len(each.results) for each in (row, row.baseline or row))

    def top(measured: Row) -> dict[str, dict[str, float]]:
        results = measured.results[:common]
        ranks = [rank_of_truth(truth[result.query], result_document(result)["hypotheses"]) for result in results]
        most = measured.setting.settings.n
        return top_accuracies(ranks, [k for k in ACCURATE if k <= most])

    standard = top(row.baseline) if row.baseline else None
    return {"task": task, "name": row.setting.name, "queries": common, "top": top(row), "standard": standard}


def _undrafted_rows(
    suite: PapersSettings, engine: Engine, queries: Sequence[str], truth: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return T's table 1: the model and its small draft models, each decoding greedily without drafts."""
    small = [kind for kind in ("ar", "medium") if (drafter_folder(engine.folder, kind) / "config.json").is_file()]
    engines = [engine, *(Engine.load(drafter_folder(engine.folder, kind), **loading_options(suite)) for kind in small)]
    plain = DecodeSettings(**PLAIN, drafter="none")
    names = ["the model", *small]
    entries = [
        (each, Setting(name, plain, names[0] * (each is not engine), ROWS["alone"].get(name, "")))
        for each, name in zip(engines, names, strict=True)
    ]
    rows = race_settings(entries, queries, seconds=suite.seconds)
    enough = truth and len(rows[0].results) >= MIN_QUERIES
    right = [_accuracy_row("retro", row, truth)["top"]["1"] if enough else None for row in rows]
    return [
        {**_report_row(row), "weights_mb": target_megabytes(each), "right": share}
        for row, each, share in zip(rows, engines, right, strict=True)
    ]


def measure_in_child(
    folder: Path, queries: Sequence[str], settings: DecodeSettings, loading: Mapping[str, Any]
) -> dict[str, float]:
    """Run `measure_memory` in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure_memory, folder, list(queries), settings, dict(loading)).result()


def measure_memory(
    folder: Path, queries: Sequence[str], settings: DecodeSettings, loading: Mapping[str, Any]
) -> dict[str, float]:
    """Load a model, decode an untimed batch, then all queries.

    Returns `{"peak_mb", "latency_ms"}`: peak memory of the process in MB (on a GPU: that allocated by PyTorch), and the
    median milliseconds per batch.
    """
    engine = Engine.load(folder, **loading)
    size = settings.batch_size
    batches = [queries[start : start + size] for start in range(0, len(queries), size)]
    engine.predict(batches[0], settings)
    reset_peak_memory()
    spent = []
    for batch in batches:
        began = time.perf_counter()
        engine.predict(batch, settings)
        spent.append(1e3 * (time.perf_counter() - began))
    on_gpu = engine.device.startswith("cuda")
    peak = torch.cuda.max_memory_allocated() / 1e6 if on_gpu else peak_memory_mb()
    return {"peak_mb": peak, "latency_ms": median(spent)}


def _memory_rows(suite: PapersSettings, engine: Engine, queries: Sequence[str]) -> list[dict[str, Any]]:
    """Return X's tables 8 and 10: peak memory and latency by batch size, with and without the Spec-Drafter."""
    drafters = [name for name in ("none", "spec_drafter") if name in usable_drafters(engine.folder)]
    rows = []
    for size in suite.memory:
        sample = list(queries[: max(suite.memory)])
        plain = DecodeSettings(**{**PLAIN, "batch_size": size})
        row: dict[str, Any] = {"batch": size, "queries": len(sample), "spec_drafter_mb": None, "added_mb": None}
        row |= {"paper_mb": None, "paper_latency": None, **ROWS["memory"].get(str(size), {})}
        for name in drafters:
            used = measure_in_child(engine.folder, sample, replace(plain, drafter=name), loading_options(suite))
            row |= {f"{name}_mb": used["peak_mb"], f"{name}_ms": used["latency_ms"]}
        if len(drafters) > 1:
            row["added_mb"] = row["spec_drafter_mb"] - row["none_mb"]
        rows.append(row)
    return rows


def _card_accuracy_rows(engine: Engine) -> list[dict[str, Any]]:
    """Return A's tables 1 and 4: the paper's accuracy, and that of `evaluate` for these weights, if measured."""
    counted = evaluation.read_measurements(engine.folder).get("accuracy", {})
    if counted.get("digest") != engine.digest:
        return []
    paper = ROWS["accuracy"][engine.task]
    top = {k: {"value": percent / 100} for k, percent in paper["top"].items()}
    name = f"{engine.name}, beam of {counted['settings']['n']}, {counted['reactions']:,} reactions"
    command = re.sub(r"--source \S+", "--source FOLDER", counted["command"])
    ours = {"command": command, "date": counted["date"], "top": counted["top"]}
    return [{"name": paper["name"], "top": top}, {"name": name, **ours}]
