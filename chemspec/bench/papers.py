"""Measure the papers' tables and figures: one run, the same queries and machine for every row.

Which rows and columns there are stands in `papers.toml`, the page around them in `papers.md`. Rows that cannot finish
in time use as many of the queries as they can, in the same order, and are compared with the standard decoder on these.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import torch

from chemspec.bench.charts import charts, svg
from chemspec.bench.speed import asked, machine, peak_mb, reset_peak
from chemspec.bench.sweep import Progress, Row, Setting, sweep
from chemspec.engine.engine import Engine
from chemspec.engine.registry import drafter_megabytes, usable
from chemspec.evaluation.accuracy import RANKS, rank_of
from chemspec.io import tables
from chemspec.io.writers import brief
from chemspec.metrics import Spread
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, Task
from chemspec.system.energy import Meter
from chemspec.types import DecodeResult

BEGIN, END = "<!-- chemspec dev papers: begin -->", "<!-- end -->"
ACCURATE = (*RANKS, 25)
# The papers' tables are about USPTO-50K's standard protocol, and about drafters, which retro-50k has all of.
MODELS: dict[Task, str] = {"forward": "forward", "retro": "retro-50k"}
NO_TRUTH = "Accuracy (table 4) is left out: the built-in queries have no answers; give --source."
WANTED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class PapersSettings:
    """How much to measure.

    Attributes:
        source: folder with the test sets, which have the true answers that table 4 needs; none takes the built-in
            queries.
        limit: queries of a row.
        seconds: for each row; when they are over, the row ends with the batch under way.
        widths: of the beams.
        batches: of the latency-throughput curve.
    """

    source: Path | None = None
    limit: int = 200
    seconds: float = 20.0
    widths: tuple[int, ...] = (5, 10, 25, 50)
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    threads: int = 0
    device: str = "auto"
    dtype: str = "auto"
    runtime: str = "auto"

    def __post_init__(self) -> None:
        if min((self.limit, *self.widths, *self.batches)) < 1 or self.seconds <= 0:
            raise ValueError("limit, widths and batches must be at least 1, and the seconds of a row above 0")


PLAIN = {"decoder": "greedy", "n": 1, "batch_size": 1, "drafting": "fixed"}
ABOUT = ("name", "against", "paper", "needs")  # what a row of `papers.toml` says besides its settings


def settings_of(table: str, have: Iterable[str] = (), **common: Any) -> list[Setting]:
    """Return the rows that `papers.toml` wants in a table.

    Args:
        table: its name there.
        have: the drafters that the model can use; rows of other learned ones are left out.
        common: settings of all rows; a list stands for a row for each of its values.
    """
    learned = {name for name, spec in DRAFTERS.items() if spec.companions}
    settings = []
    for row in WANTED[table]:
        options = {**row, **common}
        name, against, paper, needs = (options.pop(key, "") for key in ABOUT)
        lists = [value if isinstance(value, list) else [value] for value in options.values()]
        for values in product(*lists):
            how = DecodeSettings(**{**PLAIN, **dict(zip(options, values, strict=True))})
            if not {how.drafter, needs} & learned <= set(have):
                continue
            minutes = paper.get(str(how.n)) if paper else None
            speedup = minutes[0] / minutes[1] if minutes else None
            settings.append(Setting(name.format(**asdict(how)), how, against.format(**asdict(how)), speedup))
    return settings


def settings_by_table(suite: PapersSettings, task: Task, have: Sequence[str]) -> dict[str, list[Setting]]:
    """Return all rows that a model is measured on; `have` are the drafters that it can use."""
    learned = [
        way._replace(name=f"{task}, {way.name}", baseline=way.baseline and f"{task}, {way.baseline}")
        for way in settings_of("learned", have)
    ]
    if task == "forward":
        curve = settings_of("curve", batch_size=list(suite.batches))
        return {"forward": settings_of("forward"), "curve": curve, "learned": learned}
    beams = [way for n in suite.widths for way in settings_of("beams", n=n)]
    return {"retro": settings_of("retro") + beams, "learned": learned}


def measure(
    engine: Engine, queries: Sequence[str], setting: Setting, *, seconds: float, meter: Meter | None
) -> list[Row]:
    """Answer queries in batches until they or the seconds are over, after an untimed batch of the shortest query.

    Batches hold queries of like length, so that none is measured by its padding, and come in random order, so that the
    first ones stand for all.

    Args:
        engine: that answers.
        queries: SMILES.
        setting: how.
        seconds: when they are over, the batch under way is the last.
        meter: of the processor's energy, if there is one.
    """
    size = setting.settings.batch_size
    ordered = sorted(queries, key=len) if size > 1 else list(queries)
    batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    if size > 1:
        Random(0).shuffle(batches)
    engine.predict([min(queries, key=len)] * size, setting.settings)
    reset_peak()
    before = meter.read() if meter else ()
    spent: list[float] = []
    results: list[DecodeResult] = []
    began = time.perf_counter()
    for batch in batches:
        start = time.perf_counter()
        results += engine.predict(batch, setting.settings)
        spent.append(time.perf_counter() - start)
        if time.perf_counter() - began > seconds:
            break
    cuda = engine.device.startswith("cuda")
    row = Row.of(
        setting,
        results,
        seconds=tuple(spent),
        sizes=tuple(len(batch) for batch in batches[: len(spent)]),
        peak_mb=torch.cuda.max_memory_allocated() / 1e6 if cuda else peak_mb(),
        joules=meter.joules(before) if meter else None,
    )
    return [row]


def run(suite: PapersSettings, *, progress: Progress = lambda *_: None, meter: Meter | None) -> dict[str, Any]:
    """Measure everything.

    Args:
        suite: how much to measure.
        progress: is told how many rows of how many are done.
        meter: of the processor's energy, if there is one.

    Returns:
        `{"machine", "notes", "forward", "retro", "curve", "learned", "accuracy", "speedups"}`: rows of tables 2 and 3,
        of the curve, of learned drafters and of table 4, and for some rows the speed-up of every query, in time and in
        passes.
    """
    options = {name: getattr(suite, name) for name in ("device", "dtype", "threads", "runtime")}
    engines: dict[Task, Engine] = {task: Engine.load(name, **options) for task, name in MODELS.items()}
    work = {task: settings_by_table(suite, task, usable(engine.folder)) for task, engine in engines.items()}
    total, done = sum(len(settings) for planned in work.values() for settings in planned.values()), 0
    report: dict[str, Any] = {"forward": [], "retro": [], "curve": [], "learned": [], "accuracy": [], "speedups": {}}
    notes = [] if meter else ["Energy is not reported by this machine."]
    timed = partial(measure, seconds=suite.seconds, meter=meter)
    for task, planned in work.items():
        engine = engines[task]
        known = asked(engine, suite.source, suite.limit)
        truth = {question.query: question.answer for question in known if question.answer}
        for table, settings in planned.items():
            rows = sweep(
                engine,
                [question.query for question in known],
                settings,
                measure=timed,
                progress=lambda some, _, before=done: progress(before + some, total),  # type: ignore[misc]
            )
            done += len(settings)
            for row in rows:
                facts = _facts(row)
                report[table].append(facts)
                if table == "learned":
                    facts["weights_mb"] = drafter_megabytes(engine.folder, facts["drafter"])
            if table not in ("forward", "retro"):
                continue
            report["accuracy"] += [_accuracy(task, row, truth) for row in rows if truth]
            report["speedups"] |= {
                f"{task}, {row.setting.name}": _speedups(row)
                for row in rows
                if row.baseline and (row.setting.settings.batch_size, row.setting.settings.n) == (1, 1)
            }
        if not truth and notes[-1:] != [NO_TRUTH]:
            notes.append(NO_TRUTH)
    return {"machine": machine(suite.threads), "suite": asdict(suite), "notes": notes, **report}


def _facts(row: Row) -> dict[str, Any]:
    """Return a row of the report; it is compared on the batches that its baseline has answered too."""
    times, counted, settings = row.times, row.counted, row.setting.settings
    speedup = same = None
    if base := row.baseline:
        common = min(len(row.seconds), len(base.seconds))
        speedup = Spread.of(base.per_query[:common]).median / Spread.of(row.per_query[:common]).median
        if DECODERS[settings.decoder].drafts != "sampled":  # whose draws are others
            same = fmean(row.same())
    return {
        "name": row.setting.name,
        "decoder": settings.decoder,
        "n": settings.n,
        "drafter": settings.drafts_by,
        "batch": settings.batch_size,
        "exact": settings.exact,
        "queries": len(row.results),
        "median_ms": times.median,
        "q1_ms": times.low,
        "q3_ms": times.high,
        "latency_ms": Spread.of(1e3 * spent for spent in row.seconds).median,
        "queries_per_second": sum(row.sizes) / sum(row.seconds),
        "speedup": speedup,
        "paper": row.setting.paper,
        "same_list": same,
        **row.pick("passes_per_query", "nodes_per_pass", "tokens_per_pass"),
        "acceptance_rate": counted.acceptance_rate if settings.exact else None,
        "calls_per_query": counted.draft_calls / counted.queries,
        "peak_mb": row.peak_mb,
        "joules_per_query": None if row.joules is None else row.joules / len(row.results),
    }


def _speedups(row: Row) -> list[tuple[float, float]]:
    """Return of every query how many times less time, and how many times fewer passes, than the baseline it took."""
    base = row.baseline or row
    return [
        (before / after, len(slow.trace.passes) / len(fast.trace.passes))
        for before, after, slow, fast in zip(base.seconds, row.seconds, base.results, row.results, strict=False)
    ]


def _accuracy(task: Task, row: Row, truth: Mapping[str, str]) -> dict[str, Any]:
    """Return top-k of a row, and of its baseline on the same queries; in per cent."""
    common = min(len(each.results) for each in (row, row.baseline or row))

    def top(measured: Row) -> dict[str, float]:
        ranks = [rank_of(truth[result.query], brief(result)["hypotheses"]) for result in measured.results[:common]]
        most = measured.setting.settings.n
        return {str(k): 100 * fmean(0 < rank <= k for rank in ranks) for k in ACCURATE if k <= most}

    return {
        "task": task,
        "name": row.setting.name,
        "queries": common,
        "top": top(row),
        "standard": top(row.baseline) if row.baseline else None,
    }


# --- for a document ------------------------------------------------------------------------------


def write(report: Mapping[str, Any], command: str, out: Path) -> list[Path]:
    """Draw the charts into `out`/charts, write the numbers beside them and put the tables into `out`/benchmarks.md.

    Only what stands between the two marks of that page is replaced; without marks it goes to the end.

    Raises:
        ValueError: if the page has a first mark but no second.
    """
    folder, page = out / "charts", out / "benchmarks.md"
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    drawn = charts(report)
    for name, (chart, _) in drawn.items():
        files.append(folder / f"{name}.svg")
        files[-1].write_text(svg(chart), encoding="utf-8")
    files.append(folder / "papers.json")
    files[-1].write_text(json.dumps(report, default=str) + "\n", encoding="utf-8")
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    alts = {name: words for name, (_, words) in drawn.items()}
    page.write_text(_put(text, section(report, command, alts), page), encoding="utf-8")
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
        report: of `run`.
        command: that gave it.
        alts: what each chart shows, by name.
    """
    columns = WANTED["columns"]
    singles = [_single(name, pairs) for name, pairs in report["speedups"].items()]
    accuracies = tables.markdown(columns["accuracy"], map(_top, report["accuracy"]))
    template = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").rstrip()
    return template.format(
        command=command,
        machine=", ".join(f"{name} {value}" for name, value in report["machine"].items() if value is not None),
        limit=report["suite"]["limit"],
        seconds=report["suite"]["seconds"],
        notes=" ".join(report["notes"]),
        forward=_table(columns["speed"], report["forward"]),
        retro=_table(columns["speed"], report["retro"]),
        curve=_table(columns["curve"], report["curve"]),
        learned=_table(columns["learned"], report["learned"]),
        single=tables.markdown(columns["single"], singles),
        accuracy=accuracies if report["accuracy"] else NO_TRUTH,
        chart={name: f"![{words}](charts/{name}.svg)" for name, words in alts.items()},
    )


def _table(columns: tables.Columns, rows: Iterable[Mapping[str, Any]]) -> str:
    return tables.markdown(columns, [{**row, "relaxed": None if row["exact"] else " (relaxed)"} for row in rows])


def _single(name: str, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    time, passes = (Spread.of(pair[place] for pair in pairs) for place in (0, 1))
    every = [pair[0] for pair in pairs]
    return {"name": name, "time": time, "passes": passes, "least": min(every), "most": max(every)}


def _top(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of the table of accuracies, beside its baseline on the same queries."""
    top, base = row["top"], row["standard"]
    of_standard = "equal" if base == top else " / ".join(f"{value:.1f}" for value in (base or {}).values())
    return {**row, **{f"top-{k}": top.get(str(k)) for k in ACCURATE}, "of_standard": of_standard}
