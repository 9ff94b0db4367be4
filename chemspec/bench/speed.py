"""Measure decoding speed in one run, with the same weights, queries and machine for every row.

Programs alternate batch by batch, so that other load on the machine affects all of them alike.
"""

import platform
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from chemspec import asset_files
from chemspec.bench.sweep import Progress, Row, Setting, paired_ratio, sweep_settings
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import KnownReaction, read_known_reactions
from chemspec.metrics import speed_numbers
from chemspec.settings import DecodeSettings, Task
from chemspec.system import host
from chemspec.system.threads import usable_cores
from chemspec.types import Trace
from chemspec.version import __version__

WARM_UP_QUERIES = 5  # untimed queries (at least one batch): the longest
MIN_TIMINGS = 20  # minimum number of timings; fewer batches are repeated
Answers = list[list[tuple[int, ...]]]  # per query, best first: token ids without bos and eos


@dataclass(frozen=True)
class BenchSettings:
    """Plan of a benchmark; see `chemspec bench --help`."""

    tasks: tuple[Task, ...] = ("forward", "retro")
    source: Path | None = None
    limit: int = 200
    widths: tuple[int, ...] = (5, 10, 25)
    batches: tuple[int, ...] = (1, 32)
    drafters: tuple[str, ...] = ("none",)
    threads: int = 0
    device: str = "auto"
    dtypes: tuple[str, ...] = ("auto",)
    runtime: str = "auto"

    def __post_init__(self) -> None:
        if min((*self.widths, *self.batches, self.limit)) < 1:
            raise ValueError("widths, batches and limit must be at least 1")

    def settings(self, task: Task) -> list[Setting]:
        """Return the decoding settings to measure."""
        settings = []
        for n, batch in product(self.widths if task == "retro" else (1,), self.batches):
            decoder = "beam" if n > 1 else "greedy"
            decode_settings = DecodeSettings(decoder=decoder, n=n, batch_size=batch)
            settings.append(Setting(f"{task}, {n}, {batch}", decode_settings))
        return settings


@dataclass
class Program:
    """A decoder to time, of chemspec or another program, in one precision, with one drafter."""

    name: str
    version: str
    runtime: str
    dtype: str
    device: str
    answer: Callable[[Sequence[str], DecodeSettings], Answers]  # decodes a batch of queries
    drafter: str = "none"
    note: str = ""  # remark on its rows
    prepare: Callable[[Sequence[str], DecodeSettings], None] = lambda *_: None  # untimed preparation of a batch
    pause: float = 0.0  # seconds to wait after each answer, until its spinning threads sleep
    traces: list[Trace] = field(default_factory=list)  # of all answers, if available


def chemspec_program(engine: Engine, drafter: str, **options: Any) -> Program:
    """Return a program for an engine with a drafter; `options` are further settings."""
    ids = {token: index for index, token in enumerate(engine.tokenizer.tokens)}
    traces: list[Trace] = []

    def answer(queries: Sequence[str], settings: DecodeSettings) -> Answers:
        results = engine.predict(queries, settings, drafter=drafter, **options)
        traces.extend(result.trace for result in results)
        return [[tuple(ids[token] for token in item.tokens) for item in result.hypotheses] for result in results]

    runs = engine.runtime, engine.dtype, engine.device
    return Program("chemspec", __version__, *runs, answer, drafter, traces=traces)


def drafted_programs(engines: Sequence[Engine], plan: BenchSettings, _: list[str]) -> list[Program]:
    """Return programs for every precision and drafter; those without drafts first, as baselines."""
    drafters = dict.fromkeys(("none", *plan.drafters))
    return [chemspec_program(engine, drafter) for engine in engines for drafter in drafters]


def run_benchmark(
    plan: BenchSettings,
    *,
    programs: Callable[[Sequence[Engine], BenchSettings, list[str]], list[Program]] = drafted_programs,
    race: Callable[..., Sequence[Row]] | None = None,
    progress: Progress = lambda *_: None,
) -> dict[str, Any]:
    """Measure every row of the plan, and return `{"machine": ..., "notes": [...], "rows": [...]}`.

    Speed-ups are medians over batches against chemspec's own cached standard decoder (drafter none) on the same
    queries, or null if that was not measured; `identical` compares the answers. Rows of chemspec are compared with the
    standard decoder in their own precision, those of other programs with that in the first precision. Speed-ups have a
    95 % interval (bootstrap over batches).

    `programs` builds the programs, from the task's engines, the plan and a list for notes; `race` measures one setting,
    like `race_programs`; `progress` is called with the number of finished settings and the total.
    """
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    loading: dict[str, Any] = {name: getattr(plan, name) for name in ("device", "threads", "runtime")}
    total, done = sum(len(plan.settings(task)) for task in plan.tasks), 0
    for task in plan.tasks:
        engines = [Engine.load(task, dtype=dtype, **loading) for dtype in plan.dtypes]
        queries = [question.query for question in read_queries(engines[0], plan.source, plan.limit)]
        settings = plan.settings(task)
        measured = sweep_settings(
            engines[0],
            queries,
            settings,
            measure=partial(race or race_programs, programs=programs(engines, plan, notes)),
            progress=lambda finished, _, before=done: progress(before + finished, total),  # type: ignore[misc]
        )
        rows += [_report_row(row, task) for row in measured]
        done += len(settings)
    facts = {**describe_machine(plan.threads), "warm_up": WARM_UP_QUERIES, "plan": asdict(plan)}
    return {"machine": facts, "notes": list(dict.fromkeys(notes)), "rows": rows}


def race_programs(
    engine: Engine, queries: Sequence[str], setting: Setting, *, programs: Sequence[Program], rounds: int = 0
) -> list[Row]:
    """Time programs, and compare each row with that of the standard decoder: of chemspec in its own precision."""
    rows: list[Row] = []
    for program, row in zip(programs, time_programs(programs, queries, setting, rounds=rounds), strict=True):
        names = ("name", "version", "runtime", "drafter", "dtype", "device", "note")
        facts = {"model": engine.name, **{name: getattr(program, name) for name in names}, **_pass_counts(program)}
        facts["engine"] = facts.pop("name")
        rows.append(replace(row, facts=facts, baseline=_baseline_row(facts, rows)))
    return rows


def _baseline_row(facts: Mapping[str, Any], rows: Sequence[Row]) -> Row | None:
    """Return the baseline of a row; None for the first row of chemspec in a precision."""
    if facts["engine"] != "chemspec":
        return rows[0] if rows else None
    return next((row for row in rows if row.facts["dtype"] == facts["dtype"]), None)


def time_programs(
    programs: Sequence[Program], queries: Sequence[str], setting: Setting, *, rounds: int = 0
) -> list[Row]:
    """Time programs batch by batch in turn: one row each, with mean seconds, and memory of the longest batch.

    Every batch is decoded in each of the `rounds`; 0: as many as give `MIN_TIMINGS`.
    """
    plain, batch = setting.settings, setting.settings.batch_size
    by_length = sorted(queries, key=len)
    ordered = by_length if batch > 1 else list(queries)
    parts = [ordered[start : start + batch] for start in range(0, len(ordered), batch)]
    rounds = rounds or -(-MIN_TIMINGS // len(parts))
    peaks = []
    for program in programs:
        longest = by_length[-max(WARM_UP_QUERIES, batch) :]
        program.prepare(longest, plain)
        reset_peak_memory()
        program.answer(longest, plain)
        program.traces.clear()
        peaks.append(peak_memory_mb())
    answers: list[Answers] = [[] for _ in programs]
    seconds: list[list[float]] = [[] for _ in programs]
    for number, part in enumerate(parts):
        for program in programs:
            program.prepare(part, plain)
        spent: list[list[float]] = [[] for _ in programs]
        for turn in range(rounds * len(programs)):
            which = (number + turn) % len(programs)
            began = time.perf_counter()
            answered = programs[which].answer(part, plain)
            spent[which].append(time.perf_counter() - began)
            time.sleep(programs[which].pause)
            if len(spent[which]) == 1:
                answers[which].extend(answered)
        for every, times in zip(seconds, spent, strict=True):
            every.append(sum(times) / rounds)
    sizes = tuple(map(len, parts))
    return [
        Row(setting, given, seconds=tuple(every), sizes=sizes, peak_mb=peak)
        for given, every, peak in zip(answers, seconds, peaks, strict=True)
    ]


def _pass_counts(program: Program) -> dict[str, float | None]:
    """Return counts from the traces of a program's answers, None for one without traces."""
    names = ("passes_per_query", "nodes_per_pass", "tokens_per_pass", "acceptance_rate")
    if not program.traces:
        return dict.fromkeys((*names, "drafted_per_query"))
    counted = speed_numbers(program.traces)
    counts = {name: getattr(counted, name) for name in names}
    return {**counts, "drafted_per_query": counted.drafted / counted.queries}


def _report_row(row: Row, task: Task) -> dict[str, Any]:
    settings, facts, spread = row.setting.settings, dict(row.facts), row.times
    note, standard = facts.pop("note", ""), row.baseline or row
    # Paired by batch, so that long queries and load affect both sides; some programs run the first batches only.
    is_ours = standard.facts["engine"] == "chemspec"
    speedup = paired_ratio(standard.per_query, row.per_query) if is_ours else (None,) * 3
    tokens = sum(len(answers[0]) + 1 for answers in row.answers if answers)
    same, first = row.same(), row.same(first=True)  # as the standard decoder
    head = {"task": task, "decoder": settings.decoder, "n": settings.n, "batch": settings.batch_size}
    return {
        **head,
        **facts,
        "queries": sum(row.sizes),
        "median_ms": spread.median,
        "q1_ms": spread.low,
        "q3_ms": spread.high,
        "mean_ms": 1e3 * sum(row.seconds) / sum(row.sizes),
        "tokens_per_second": tokens / sum(row.seconds),  # of the first answers, including eos
        **dict(zip(("speedup", "speedup_low", "speedup_high"), speedup, strict=True)),
        "identical": all(same),
        "same_list": fmean(same),
        "same_first": fmean(first),
        "peak_mb": row.peak_mb,
        "note": note,
    }


def read_queries(engine: Engine, source: Path | None, limit: int) -> list[KnownReaction]:
    """Return queries that the model can read, of `source` or built-in ones without answers; else raise ValueError."""
    if source is None:
        reactions = [KnownReaction(text, "") for text in asset_files.bench_queries(engine.task)]
    else:
        reactions = read_known_reactions(source / f"{engine.task}_test.csv.gz", engine.task, limit=limit)
    readable = [question for question in reactions if not engine.prepare(question.query).refusal]
    if not readable:
        raise ValueError(f"model {engine.name!r} can read none of the queries")
    return readable[:limit]


# --- the machine ---------------------------------------------------------------------------------


def reset_peak_memory() -> None:
    """Reset the peak memory of this process, if the system supports it (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_memory_mb() -> float:
    """Return the peak memory of this process in MB since `reset_peak_memory`, or since its start."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if platform.system() == "Darwin" else peak * 1024 / 1e6


def describe_machine(threads: int) -> dict[str, Any]:
    """Describe the machine and versions that the numbers depend on; 0 threads: all cores."""
    return {
        "cpu": host.processor_name(),
        "cores": usable_cores(),
        "threads": threads or usable_cores(),
        "load": round(host.load_average(), 2),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "chemspec": __version__,
        "date": time.strftime("%Y-%m-%d"),
    }
