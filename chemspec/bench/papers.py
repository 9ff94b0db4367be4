"""Measure the papers' tables and figures: one run, the same queries and machine for every row.

A is Andronov et al. (2024), X is Xia et al. (2023), T is Tulsian et al. Rows that cannot finish in time use as many of
the queries as they can, in the same order, and are compared with the standard decoder on these.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import torch

from chemspec.bench.charts import charts, svg
from chemspec.bench.speed import BenchSettings, asked, machine, peak_mb, reset_peak
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


# --- what is measured ----------------------------------------------------------------------------


def forward_settings() -> list[Setting]:
    """Return the rows of table 2 of Andronov et al.: greedy product prediction."""

    def way(name: str, standard: str, paper: float | None = None, **options: Any) -> Setting:
        settings = DecodeSettings(decoder="greedy", n=1, **{"batch_size": 1, **options})
        return Setting(name, settings, standard, paper)

    return [
        way("standard, B=1", "", drafter="none"),
        way("windows DL=4, B=1", "standard, B=1", 61.8 / 26.04, drafter="windows", draft_length=4),
        way("windows DL=10, B=1", "standard, B=1", 61.8 / 17.06, drafter="windows", draft_length=10),
        *(way(f"{name}, B=1", "standard, B=1", drafter=name) for name in ("copy", "attention", "mixed", "auto")),
        way("standard, B=32", "", drafter="none", batch_size=32),
        way("auto, B=32", "standard, B=32", drafter="auto", batch_size=32),
    ]


# Minutes of table 3 of Andronov et al.: beam search, SBS with DL=10, SBS with DL=0.
TABLE_3 = {5: (36.7, 9.9, 23.1), 10: (39.9, 15.4, 25.7), 25: (46.2, 28.1, 34.6)}


def retro_settings(widths: Iterable[int]) -> list[Setting]:
    """Return the rows of table 3 of Andronov et al.: beams of several widths; greedy, for the distribution."""
    ways = [
        Setting("greedy, standard", DecodeSettings(decoder="greedy", n=1, drafter="none", batch_size=1)),
        Setting(
            "greedy, auto", DecodeSettings(decoder="greedy", n=1, drafter="auto", batch_size=1), "greedy, standard"
        ),
    ]
    for n in widths:
        beam, sbs, zero = TABLE_3.get(n, (None, None, None))
        standard = f"n={n}, beam search, standard"

        def way(name: str, paper: float | None = None, n: int = n, **options: Any) -> Setting:
            settings = DecodeSettings(**{"decoder": "beam", "n": n, "batch_size": 1, **options})
            against = f"n={n}, beam search, standard"
            title = f"n={n}, {name}"
            return Setting(title, settings, "" if title == against else against, paper)

        ways += [
            Setting(standard, way("", drafter="none").settings),
            way("exact, look-ahead (mixed)", drafter="mixed"),
            way("exact, auto", drafter="auto"),
            way("SBS DL=10", beam / sbs if beam and sbs else None, decoder="sbs", drafter="windows", draft_length=10),
            way("SBS DL=0", beam / zero if beam and zero else None, decoder="sbs", drafter="none"),
        ]
    return ways


def curve_settings(batches: Iterable[int]) -> list[Setting]:
    """Return the points of figure 5 of Xia et al. 2023: latency against throughput; forward, greedy."""
    return [
        Setting(
            f"{drafter}, B={batch}",
            DecodeSettings(decoder="greedy", n=1, drafter=drafter, batch_size=batch),
            "" if drafter == "none" else f"none, B={batch}",
        )
        for drafter in ("none", "auto", "mixed")
        for batch in batches
    ]


def learned_settings(task: Task, have: Iterable[str]) -> list[Setting]:
    """Return the rows of tables 1, 3 and 7 to 9 of Xia et al. 2023 and 2 to 5 of Tulsian et al.: drafters.

    `have` are the names of the drafters that the model can use.
    """
    learned = [name for name in have if DRAFTERS[name].companions]

    def way(name: str, standard: str = "", **options: Any) -> Setting:
        settings = DecodeSettings(**{"decoder": "greedy", "n": 1, "batch_size": 1, **options})
        return Setting(f"{task}, {name}", settings, standard and f"{task}, {standard}")

    ways = []
    for batch in (1, 32):
        plain = f"greedy B={batch}, standard"
        ways.append(way(plain, drafter="none", batch_size=batch))
        ways += [
            way(f"greedy B={batch}, {name}", plain, drafter=name, batch_size=batch)
            for name in ("copy", "mixed", "auto", *learned)
        ]
        if batch == 1 and "spec_drafter" in have:
            ways += [
                way(f"greedy B=1, spec_drafter k={k}", plain, drafter="spec_drafter", draft_length=k)
                for k in (5, 10, 15)
            ]
    plain = "beam 5, standard"
    ways.append(way(plain, decoder="beam", n=5, drafter="none"))
    ways += [
        way(f"beam 5, {name}", plain, decoder="beam", n=5, drafter=name)
        for name in ("mixed", *learned)
        if name not in ("hierarchy", "medusa")
    ]
    if "ar" in have:
        plain = "sampling, standard"
        ways.append(way(plain, decoder="sample", drafter="none"))
        ways.append(way("sampling, mixed", plain, decoder="sample", drafter="mixed"))
        ways += [
            way(f"speculative sampling, {name}", plain, decoder="speculative-sample", drafter=name)
            for name in ("ar", "hierarchy")
            if name in have
        ]
        ways.append(way("sampled-beam 5, ar", "beam 5, standard", decoder="sampled-beam", n=5, drafter="ar"))
    return ways


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
    settings = {name: getattr(suite, name) for name in ("device", "dtype", "threads", "runtime")}
    engines: dict[Task, Engine] = {task: Engine.load(task, **settings) for task in ("forward", "retro")}
    work: dict[Task, dict[str, list[Setting]]] = {
        "forward": {"forward": forward_settings(), "curve": curve_settings(suite.batches)},
        "retro": {"retro": retro_settings(suite.widths)},
    }
    for task, planned in work.items():
        planned["learned"] = learned_settings(task, usable(engines[task].folder))
    total, done = sum(len(every) for planned in work.values() for every in planned.values()), 0
    report: dict[str, Any] = {"forward": [], "retro": [], "curve": [], "learned": [], "accuracy": [], "speedups": {}}
    notes = [] if meter else ["Energy is not reported by this machine."]
    timed = partial(measure, seconds=suite.seconds, meter=meter)
    for task, planned in work.items():
        engine = engines[task]
        known = asked(engine, suite.source, suite.limit)
        truth = {question.query: question.answer for question in known if question.answer}
        for table, every in planned.items():
            before = done
            rows = sweep(
                engine,
                [question.query for question in known],
                every,
                measure=timed,
                progress=lambda some, _, before=before: progress(before + some, total),  # type: ignore[misc]
            )
            done += len(every)
            report[table] += map(_facts, rows)
            if table == "learned":
                for facts in report[table][-len(rows) :]:
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
    facts = {
        name: value for name, value in machine(BenchSettings(**settings)).items() if name not in ("plan", "warm_up")
    }
    suited = {**asdict(suite), "source": str(suite.source) if suite.source else None}
    return {"machine": facts, "suite": suited, "notes": notes, **report}


NO_TRUTH = "Accuracy (table 4) is left out: the built-in queries have no answers; give --source."


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
        "passes_per_query": counted.passes_per_query,
        "nodes_per_pass": counted.nodes_per_pass,
        "acceptance_rate": counted.acceptance_rate if settings.exact else None,
        "tokens_per_pass": counted.tokens_per_pass,
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
    files[-1].write_text(json.dumps(report) + "\n", encoding="utf-8")
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


WAY, QUERIES, SPEED_UP = {"way": "{name}{relaxed}"}, {"queries": "{queries}"}, {"speed-up": "{speedup:.2f}"}
TIMES = {**WAY, **QUERIES, "ms/query": "{median_ms:.2f}", "quartiles": "{q1_ms:.2f}-{q3_ms:.2f}", **SPEED_UP}
NODES = {"nodes/pass": "{nodes_per_pass:.1f}"}
ACCEPTANCE, SAME = {"acceptance": "{acceptance_rate:.0%}"}, {"same list": "{same_list:.0%}"}
PASSES, PEAK, ENERGY = (
    {"passes": "{passes_per_query:.1f}"},
    {"peak MB": "{peak_mb:.0f}"},
    {"J/query": "{joules_per_query:.3f}"},
)
SPEED = {**TIMES, "paper A": "{paper:.2f}", **PASSES, **NODES, **ACCEPTANCE, **SAME, **PEAK, **ENERGY}
LEARNED = {
    **TIMES,
    **PASSES,
    "drafter's calls": "{calls_per_query:.1f}",
    "tokens/pass": "{tokens_per_pass:.2f}",
    **NODES,
    **ACCEPTANCE,
    "weights MB": "{weights_mb:.1f}",
    **PEAK,
    **SAME,
}
CURVE = {
    "drafter": "{drafter}",
    "batch": "{batch}",
    **QUERIES,
    "latency ms": "{latency_ms:.1f}",
    "queries/s": "{queries_per_second:.0f}",
    **SPEED_UP,
    **PASSES,
    **NODES,
    **PEAK,
    **ENERGY,
}
SINGLE = {
    "way": "{name}",
    "queries": "{time.runs}",
    "time: median": "{time.median:.2f}",
    "quartiles": "{time.low:.2f}-{time.high:.2f}",
    "least": "{least:.2f}",
    "most": "{most:.2f}",
    "passes: median": "{passes.median:.1f}",
    "passes: quartiles": "{passes.low:.1f}-{passes.high:.1f}",
}
TOP = {
    "task": "{task}",
    "way": "{name}",
    "queries": "{queries}",
    **{f"top-{k}": f"{{top-{k}:.1f}}" for k in ACCURATE},
    "standard's, same queries": "{told}",
}


def section(report: Mapping[str, Any], command: str, alts: Mapping[str, str]) -> str:
    """Return the section of the page, without its marks.

    Args:
        report: of `run`.
        command: that gave it.
        alts: what each chart shows, by name.
    """
    machine = ", ".join(f"{name} {value}" for name, value in report["machine"].items() if value is not None)
    how = report["suite"]

    def chart(name: str) -> str:
        return f"![{alts[name]}](charts/{name}.svg)"

    parts = [
        "## The papers' tables and figures",
        f"`{command}`",
        machine,
        f"At most {how['limit']} queries and {how['seconds']:g} seconds a row; speed-ups and equal lists are against "
        'the standard row on the queries that both rows answered. "paper A" is the speed-up that Andronov et al. '
        "report, on an H100 and without a key-value cache. Energy is that of the whole processor. "
        + " ".join(report["notes"]),
        "### Greedy product prediction (paper A, table 2)",
        _table(SPEED, report["forward"]),
        chart("forward-times"),
        "### Beams for retrosynthesis (paper A, table 3)",
        'For SBS, "same list" is the share of n-best lists that equal those of true beam search.',
        _table(SPEED, report["retro"]),
        chart("retro-times"),
        "### Accuracy (paper A, table 4)",
        _accuracies(report["accuracy"]) or NO_TRUTH,
        "### Latency and throughput (paper X, figure 5), peak memory (paper X, tables 8 to 11)",
        "Forward, greedy. Peak memory is that of the whole process, both models' runtime included.",
        _table(CURVE, report["curve"]),
        chart("latency"),
        "### Learned drafters (paper X, tables 1, 3 and 7 to 9; paper T, tables 2 to 5)",
        "Calls are runs of the drafter's own model, passes those of the target's decoder, both a query; weights are "
        "the drafter's, in fp32. k is the number of masks used. Speculative sampling and standard sampling draw other "
        "answers with the same probabilities. "
        "[drafters.md](drafters.md) has the counts, and says which to take.",
        _table(LEARNED, report["learned"]),
        chart("learned-times"),
        "### Single queries (paper X, figure 6)",
        _table(SINGLE, [_single(name, pairs) for name, pairs in report["speedups"].items()]),
        chart("speedups-time"),
        chart("speedups-passes"),
    ]
    return "\n\n".join(parts)


def _table(columns: tables.Columns, rows: Iterable[Mapping[str, Any]]) -> str:
    return tables.markdown(
        columns, [{**row, "relaxed": None if row.get("exact", True) else " (relaxed)"} for row in rows]
    )


def _single(name: str, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    time, passes = (Spread.of(pair[place] for pair in pairs) for place in (0, 1))
    every = [pair[0] for pair in pairs]
    return {"name": name, "time": time, "passes": passes, "least": min(every), "most": max(every)}


def _accuracies(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of each row beside its baseline on the same queries; empty where nothing is known."""

    def told(row: Mapping[str, Any]) -> str:
        base = row["standard"]
        if base is None:
            return ""
        return "equal" if base == row["top"] else " / ".join(f"{value:.1f}" for value in base.values())

    tops = [{f"top-{k}": row["top"].get(str(k)) for k in ACCURATE} for row in rows]
    return _table(TOP, [{**row, **top, "told": told(row)} for row, top in zip(rows, tops, strict=True)]) if rows else ""
