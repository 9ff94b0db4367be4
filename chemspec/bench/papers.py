"""The papers' tables and figures in our terms: one run, the same queries and machine for every row.

A is Andronov et al. (2024), X is Xia et al. (2023), T is Tulsian et al. Rows that cannot finish in time use as many of
the queries as they can, in the same
order, and are compared with the standard decoder on these.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import torch

from chemspec.bench.charts import charts, svg
from chemspec.bench.speed import Plan, machine, peak_mb, reset_peak
from chemspec.engine.engine import Engine
from chemspec.engine.registry import drafter_megabytes, usable
from chemspec.evaluation import reference
from chemspec.evaluation.accuracy import RANKS, Question, questions, rank_of
from chemspec.io.writers import brief
from chemspec.metrics import Spread, numbers
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, Task
from chemspec.system.energy import Meter
from chemspec.types import DecodeResult

BEGIN, END = "<!-- chemspec dev papers: begin -->", "<!-- end -->"
ACCURATE = (*RANKS, 25)


@dataclass(frozen=True)
class Suite:
    """How much to measure.

    Attributes:
        source: folder with the test sets, which have the true answers that table 4 needs; none takes the built-in
        queries.
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


class Way(NamedTuple):
    """A row: its name, how it decodes, the row that it is compared with, and the speed-up that the paper reports, if
    any."""

    name: str
    settings: DecodeSettings
    standard: str = ""
    paper: float | None = None


@dataclass(frozen=True)
class Measured:
    """A row as measured: results in the order in which they came, seconds and size of every batch."""

    way: Way
    queries: tuple[str, ...]
    results: tuple[DecodeResult, ...]
    seconds: tuple[float, ...]
    sizes: tuple[int, ...]
    peak: float
    joules: float | None

    @property
    def per_query(self) -> list[float]:
        """Milliseconds a query, one figure a batch."""
        return [1e3 * spent / size for spent, size in zip(self.seconds, self.sizes, strict=True)]


# --- what is measured ----------------------------------------------------------------------------


def forward_ways() -> list[Way]:
    """Table 2 of paper A: greedy product prediction."""

    def way(name: str, standard: str, paper: float | None = None, **options: Any) -> Way:
        settings = DecodeSettings(decoder="greedy", n=1, **{"batch_size": 1, **options})
        return Way(name, settings, standard, paper)

    return [
        way("standard, B=1", "", drafter="none"),
        way("windows DL=4, B=1", "standard, B=1", 61.8 / 26.04, drafter="windows", draft_length=4),
        way("windows DL=10, B=1", "standard, B=1", 61.8 / 17.06, drafter="windows", draft_length=10),
        *(way(f"{name}, B=1", "standard, B=1", drafter=name) for name in ("copy", "attention", "mixed", "auto")),
        way("standard, B=32", "", drafter="none", batch_size=32),
        way("auto, B=32", "standard, B=32", drafter="auto", batch_size=32),
    ]


# Minutes of table 3 of paper A: beam search, SBS with DL=10, SBS with DL=0.
TABLE_3 = {5: (36.7, 9.9, 23.1), 10: (39.9, 15.4, 25.7), 25: (46.2, 28.1, 34.6)}


def retro_ways(widths: Iterable[int]) -> list[Way]:
    """Table 3 of paper A: retrosynthesis by beams of several widths; and greedy, for the distribution of speed-ups."""
    ways = [
        Way("greedy, standard", DecodeSettings(decoder="greedy", n=1, drafter="none", batch_size=1)),
        Way("greedy, auto", DecodeSettings(decoder="greedy", n=1, drafter="auto", batch_size=1), "greedy, standard"),
    ]
    for n in widths:
        beam, sbs, zero = TABLE_3.get(n, (None, None, None))
        standard = f"n={n}, beam search, standard"

        def way(name: str, paper: float | None = None, n: int = n, **options: Any) -> Way:
            settings = DecodeSettings(**{"decoder": "beam", "n": n, "batch_size": 1, **options})
            against = f"n={n}, beam search, standard"
            title = f"n={n}, {name}"
            return Way(title, settings, "" if title == against else against, paper)

        ways += [
            Way(standard, way("", drafter="none").settings),
            way("exact, look-ahead (mixed)", drafter="mixed"),
            way("exact, auto", drafter="auto"),
            way("SBS DL=10", beam / sbs if beam and sbs else None, decoder="sbs", drafter="windows", draft_length=10),
            way("SBS DL=0", beam / zero if beam and zero else None, decoder="sbs", drafter="none"),
        ]
    return ways


def curve_ways(batches: Iterable[int]) -> list[Way]:
    """Figure 5 of paper X: latency against throughput; forward, greedy."""
    return [
        Way(
            f"{drafter}, B={batch}",
            DecodeSettings(decoder="greedy", n=1, drafter=drafter, batch_size=batch),
            "" if drafter == "none" else f"none, B={batch}",
        )
        for drafter in ("none", "auto", "mixed")
        for batch in batches
    ]


def learned_ways(task: Task, have: Iterable[str]) -> list[Way]:
    """Tables 1, 3 and 7 to 9 of paper X and 2 to 5 of paper T: learned drafters, as far as the model has them, beside
    query drafters."""
    learned = [name for name in have if DRAFTERS[name].companions]

    def way(name: str, standard: str = "", **options: Any) -> Way:
        settings = DecodeSettings(**{"decoder": "greedy", "n": 1, "batch_size": 1, **options})
        return Way(f"{task}, {name}", settings, standard and f"{task}, {standard}")

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


def measure(engine: Engine, queries: Sequence[str], way: Way, seconds: float, meter: Meter | None) -> Measured:
    """Answer queries in batches until they or the seconds are over; before, a batch of the shortest query is answered
    untimed.

    Batches hold queries of like length, so that none is measured by its padding, and come in random order, so that the
    first
    ones stand for all.
    """
    size = way.settings.batch_size
    ordered = sorted(queries, key=len) if size > 1 else list(queries)
    batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    if size > 1:
        Random(0).shuffle(batches)
    engine.predict([min(queries, key=len)] * size, way.settings)
    reset_peak()
    before = meter.read() if meter else ()
    spent: list[float] = []
    results: list[DecodeResult] = []
    began = time.perf_counter()
    for batch in batches:
        start = time.perf_counter()
        results += engine.predict(batch, way.settings)
        spent.append(time.perf_counter() - start)
        if time.perf_counter() - began > seconds:
            break
    done = batches[: len(spent)]
    return Measured(
        way,
        tuple(text for batch in done for text in batch),
        tuple(results),
        tuple(spent),
        tuple(map(len, done)),
        _peak(engine),
        meter.joules(before) if meter else None,
    )


def _peak(engine: Engine) -> float:
    if engine.device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 1e6
    return peak_mb()


def run(suite: Suite, *, progress: Callable[[int, int], None] = lambda *_: None, meter: Meter | None) -> dict[str, Any]:
    """Measure everything.

    Returns:
        `{"machine", "notes", "forward", "retro", "curve", "learned", "accuracy", "speedups"}`: rows of tables 2 and 3,
        of the curve, of
        learned drafters and of table 4, and for some ways the speed-up of every query, in time and in passes.
    """
    works: dict[Task, list[tuple[str, Way]]] = {
        "forward": [
            *(("forward", way) for way in forward_ways()),
            *(("curve", way) for way in curve_ways(suite.batches)),
        ],
        "retro": [("retro", way) for way in retro_ways(suite.widths)],
    }
    engines = {
        task: Engine.load(task, device=suite.device, dtype=suite.dtype, threads=suite.threads, runtime=suite.runtime)
        for task in works
    }
    for task, ways in works.items():
        ways += [("learned", way) for way in learned_ways(task, usable(engines[task].folder))]
    total, done = sum(map(len, works.values())), 0
    report: dict[str, Any] = {"forward": [], "retro": [], "curve": [], "learned": [], "accuracy": [], "speedups": {}}
    notes = [] if meter else ["Energy is not reported by this machine."]
    for task, ways in works.items():
        engine = engines[task]
        asked = _asked(engine, suite)
        texts = [item.query for item in asked]
        truth = {item.query: item.answer for item in asked if item.answer}
        found: dict[str, Measured] = {}
        for table, way in ways:
            one = found[way.name] = measure(engine, texts, way, suite.seconds, meter)
            row = _row(one, found.get(way.standard))
            if table == "learned":
                row["weights_mb"] = drafter_megabytes(engine.folder, way.settings.drafts_by)
            report[table].append(row)
            if truth and table in ("forward", "retro"):
                report["accuracy"].append(_accuracy(task, one, found.get(way.standard), truth))
            if table in ("forward", "retro") and way.standard and way.settings.batch_size == 1 and way.settings.n == 1:
                report["speedups"][f"{task}, {way.name}"] = _ups(one, found[way.standard])
            done += 1
            progress(done, total)
        if not truth and notes[-1:] != [NO_TRUTH]:
            notes.append(NO_TRUTH)
    plan = Plan(threads=suite.threads, device=suite.device, dtype=suite.dtype, runtime=suite.runtime)
    kept = {name: value for name, value in machine(plan).items() if name not in ("plan", "warm_up")}
    suited = {**asdict(suite), "source": str(suite.source) if suite.source else None}
    return {"machine": kept, "suite": suited, "notes": notes, **report}


NO_TRUTH = "Accuracy (table 4) is left out: the built-in queries have no answers; give --source."


def _asked(engine: Engine, suite: Suite) -> list[Question]:
    """The queries that the model can read, with their true answers where they are known."""
    if suite.source is None:
        found = [Question(text, "") for text in reference.bench_queries(engine.task)]
    else:
        file = suite.source / f"{engine.task}_test.csv.gz"
        found = questions(file, engine.task, limit=suite.limit)
    usable = [item for item in found if not engine.prepare(item.query).refusal][: suite.limit]
    if not usable:
        raise ValueError(f"model {engine.name!r} can read none of the queries")
    return usable


def _row(one: Measured, standard: Measured | None) -> dict[str, Any]:
    """Speed-ups are against the standard on the batches that both have answered; so are the shares of equal answers."""
    times, counted = Spread.of(one.per_query), numbers([item.trace for item in one.results])
    common = min(len(one.seconds), len(standard.seconds)) if standard else 0
    held = sum(one.sizes[:common])
    speedup = same = None
    if standard and common:
        speedup = Spread.of(standard.per_query[:common]).median / Spread.of(one.per_query[:common]).median
        pairs = zip(one.results[:held], standard.results[:held], strict=True)
        if DECODERS[one.way.settings.decoder].drafts != "sampled":  # whose draws are others
            same = sum(_texts(a) == _texts(b) for a, b in pairs) / held
    wait = Spread.of(1e3 * spent for spent in one.seconds)
    settings = one.way.settings
    return {
        "name": one.way.name,
        "decoder": settings.decoder,
        "n": settings.n,
        "drafter": settings.drafts_by,
        "batch": settings.batch_size,
        "exact": settings.exact,
        "queries": len(one.results),
        "median_ms": times.median,
        "q1_ms": times.low,
        "q3_ms": times.high,
        "latency_ms": wait.median,
        "queries_per_second": sum(one.sizes) / sum(one.seconds),
        "speedup": speedup,
        "paper": one.way.paper,
        "same_list": same,
        "passes_per_query": counted.passes_per_query,
        "nodes_per_pass": counted.nodes_per_pass,
        "acceptance_rate": counted.acceptance_rate if settings.exact else None,
        "tokens_per_pass": counted.tokens_per_pass,
        "calls_per_query": counted.draft_calls / counted.queries,
        "peak_mb": one.peak,
        "joules_per_query": None if one.joules is None else one.joules / len(one.results),
    }


def _texts(result: DecodeResult) -> list[tuple[str, ...]]:
    return [item.tokens for item in result.hypotheses]


def _ups(one: Measured, standard: Measured) -> list[tuple[float, float]]:
    """Of every query how many times less time, and how many times fewer passes, than the standard took."""
    return [
        (before / after, len(plain.trace.passes) / len(fast.trace.passes))
        for before, after, plain, fast in zip(
            standard.seconds, one.seconds, standard.results, one.results, strict=False
        )
    ]


def _accuracy(task: Task, one: Measured, standard: Measured | None, truth: Mapping[str, str]) -> dict[str, Any]:
    """Top-k of a way, and of its standard on the same queries; in per cent."""
    answered = set(one.queries) & set(standard.queries if standard else one.queries)

    def top(measured: Measured) -> dict[str, float]:
        ranks = [
            rank_of(truth[query], brief(result)["hypotheses"])
            for query, result in zip(measured.queries, measured.results, strict=True)
            if query in answered
        ]
        most = measured.way.settings.n
        return {str(k): 100 * fmean(0 < rank <= k for rank in ranks) for k in ACCURATE if k <= most}

    return {
        "task": task,
        "name": one.way.name,
        "queries": len(answered),
        "top": top(one),
        "standard": top(standard) if standard else None,
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


SPEED = (
    "way",
    "queries",
    "ms/query",
    "quartiles",
    "speed-up",
    "paper A",
    "passes",
    "nodes/pass",
    "acceptance",
    "same list",
    "peak MB",
    "J/query",
)
LEARNED = (
    "way",
    "queries",
    "ms/query",
    "quartiles",
    "speed-up",
    "passes",
    "drafter's calls",
    "tokens/pass",
    "nodes/pass",
    "acceptance",
    "weights MB",
    "peak MB",
    "same list",
)
CURVE = (
    "drafter",
    "batch",
    "queries",
    "latency ms",
    "queries/s",
    "speed-up",
    "passes",
    "nodes/pass",
    "peak MB",
    "J/query",
)


def section(report: Mapping[str, Any], command: str, alts: Mapping[str, str]) -> str:
    """The section of the page, without its marks."""
    told = ", ".join(f"{name} {value}" for name, value in report["machine"].items() if value is not None)
    how = report["suite"]

    def chart(name: str) -> str:
        return f"![{alts[name]}](charts/{name}.svg)"

    parts = [
        "## The papers' tables and figures",
        f"`{command}`",
        told,
        f"At most {how['limit']} queries and {how['seconds']:g} seconds a row; speed-ups and equal lists are against the standard row on the "
        'queries that both rows answered. "paper A" is the speed-up that Andronov et al. report, on an H100 and without a key-value cache. '
        "Energy is that of the whole processor. " + " ".join(report["notes"]),
        "### Greedy product prediction (paper A, table 2)",
        _markdown(SPEED, map(_speed, report["forward"])),
        chart("forward-times"),
        "### Beams for retrosynthesis (paper A, table 3)",
        'For SBS, "same list" is the share of n-best lists that equal those of true beam search.',
        _markdown(SPEED, map(_speed, report["retro"])),
        chart("retro-times"),
        "### Accuracy (paper A, table 4)",
        _accuracies(report["accuracy"]) or NO_TRUTH,
        "### Latency and throughput (paper X, figure 5), peak memory (paper X, tables 8 to 11)",
        "Forward, greedy. Peak memory is that of the whole process, both models' runtime included.",
        _markdown(CURVE, map(_point, report["curve"])),
        chart("latency"),
        "### Learned drafters (paper X, tables 1, 3 and 7 to 9; paper T, tables 2 to 5)",
        "Calls are runs of the drafter's own model, passes those of the target's decoder, both a query; weights are the drafter's, in fp32. k is the "
        "number of masks used. Speculative sampling and standard sampling draw other answers with the same probabilities. "
        "[drafters.md](drafters.md) has the counts, and says which to take.",
        _markdown(LEARNED, map(_learned, report["learned"])),
        chart("learned-times"),
        "### Single queries (paper X, figure 6)",
        _markdown(
            ("way", "queries", "time: median", "quartiles", "least", "most", "passes: median", "quartiles"),
            (_spread(name, pairs) for name, pairs in report["speedups"].items()),
        ),
        chart("speedups-time"),
        chart("speedups-passes"),
    ]
    return "\n\n".join(parts)


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _speed(row: Mapping[str, Any]) -> list[str]:
    return [
        row["name"] + ("" if row["exact"] else " (relaxed)"),
        str(row["queries"]),
        f"{row['median_ms']:.2f}",
        f"{row['q1_ms']:.2f}-{row['q3_ms']:.2f}",
        _shown(row["speedup"], ".2f"),
        _shown(row["paper"], ".2f"),
        f"{row['passes_per_query']:.1f}",
        f"{row['nodes_per_pass']:.1f}",
        _shown(row["acceptance_rate"], ".0%"),
        _shown(row["same_list"], ".0%"),
        f"{row['peak_mb']:.0f}",
        _shown(row["joules_per_query"], ".3f"),
    ]


def _learned(row: Mapping[str, Any]) -> list[str]:
    return [
        row["name"] + ("" if row["exact"] else " (relaxed)"),
        str(row["queries"]),
        f"{row['median_ms']:.2f}",
        f"{row['q1_ms']:.2f}-{row['q3_ms']:.2f}",
        _shown(row["speedup"], ".2f"),
        f"{row['passes_per_query']:.1f}",
        f"{row['calls_per_query']:.1f}",
        _shown(row["tokens_per_pass"], ".2f"),
        f"{row['nodes_per_pass']:.1f}",
        _shown(row["acceptance_rate"], ".0%"),
        f"{row['weights_mb']:.1f}",
        f"{row['peak_mb']:.0f}",
        _shown(row["same_list"], ".0%"),
    ]


def _point(row: Mapping[str, Any]) -> list[str]:
    return [
        row["drafter"],
        str(row["batch"]),
        str(row["queries"]),
        f"{row['latency_ms']:.1f}",
        f"{row['queries_per_second']:.0f}",
        _shown(row["speedup"], ".2f"),
        f"{row['passes_per_query']:.1f}",
        f"{row['nodes_per_pass']:.1f}",
        f"{row['peak_mb']:.0f}",
        _shown(row["joules_per_query"], ".3f"),
    ]


def _spread(name: str, pairs: Sequence[tuple[float, float]]) -> list[str]:
    ups, passes = (Spread.of(pair[place] for pair in pairs) for place in (0, 1))
    times = [pair[0] for pair in pairs]
    return [
        name,
        str(ups.runs),
        f"{ups.median:.2f}",
        f"{ups.low:.2f}-{ups.high:.2f}",
        f"{min(times):.2f}",
        f"{max(times):.2f}",
        f"{passes.median:.1f}",
        f"{passes.low:.1f}-{passes.high:.1f}",
    ]


def _accuracies(rows: Sequence[Mapping[str, Any]]) -> str:
    """Each speculative way beside its standard on the same queries; empty where nothing is known."""
    if not rows:
        return ""
    head = ("task", "way", "queries", *(f"top-{k}" for k in ACCURATE), "standard's, same queries")

    def cells(row: Mapping[str, Any]) -> list[str]:
        tops = [_shown(row["top"].get(str(k)), ".1f") for k in ACCURATE]
        base = row["standard"]
        told = (
            ""
            if base is None
            else "equal"
            if base == row["top"]
            else " / ".join(f"{value:.1f}" for value in base.values())
        )
        return [row["task"], row["name"], str(row["queries"]), *tops, told]

    return _markdown(head, map(cells, rows))
