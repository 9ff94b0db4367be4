"""Measure decoding speed in one run, with the same weights, queries and machine for every row.

Programs alternate batch by batch, so that other load on the machine affects all of them alike; a very slow program is
measured afterwards on a few queries.
"""

import platform
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from chemspec import asset_files
from chemspec.bench.programs import Answers, Program, chemspec_programs
from chemspec.bench.sweep import Progress, Row, Setting, paired_ratio, sweep_settings
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import KnownReaction, read_known_reactions
from chemspec.metrics import speed_numbers
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings, Task, preset_config
from chemspec.system import host
from chemspec.system.threads import usable_cores
from chemspec.tokenizer import Tokenizer
from chemspec.version import __version__

WARM_UP_QUERIES = 5  # untimed queries (at least one batch): the longest
MIN_TIMINGS = 20  # minimum number of timings; fewer batches are repeated
TYPICAL_LENGTH = 45  # length limit for random weights, which seldom emit eos


@dataclass(frozen=True)
class BenchSettings:
    """Plan of a benchmark; see `chemspec bench --help`."""

    tasks: tuple[Task, ...] = ("forward", "retro")
    source: Path | None = None
    limit: int = 200
    widths: tuple[int, ...] = (5, 10, 25)
    batches: tuple[int, ...] = (1, 32)
    drafters: tuple[str, ...] = ("none",)
    preset: str = ""
    threads: int = 0
    device: str = "auto"
    dtypes: tuple[str, ...] = ("auto",)
    runtime: str = "auto"

    def __post_init__(self) -> None:
        if min((*self.widths, *self.batches, self.limit)) < 1:
            raise ValueError("widths, batches and limit must be at least 1")

    def settings(self, task: Task) -> list[Setting]:
        """Return the decoding settings to measure."""
        limit: dict[str, Any] = {"max_len": TYPICAL_LENGTH} if self.preset else {}
        settings = []
        for n, batch in product(self.widths if task == "retro" else (1,), self.batches):
            decoder = "beam" if n > 1 else "greedy"
            decode_settings = DecodeSettings(decoder=decoder, n=n, batch_size=batch, **limit)
            settings.append(Setting(f"{task}, {n}, {batch}", decode_settings))
        return settings


def drafted_programs(engines: Sequence[Engine], plan: BenchSettings, _: list[str]) -> list[Program]:
    """Return programs for every precision and drafter; those without drafts first, as baselines."""
    return [program for engine in engines for program in chemspec_programs(engine, plan.drafters)]


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
    total, done = sum(len(plan.settings(task)) for task in plan.tasks), 0
    for task in plan.tasks:
        with _load_engines(task, plan) as engines:
            engine = engines[0]
            queries = [question.query for question in read_queries(engine, plan.source, plan.limit)]
            settings = plan.settings(task)
            measured = sweep_settings(
                engine,
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
    engine: Engine, queries: Sequence[str], setting: Setting, *, programs: Sequence[Program]
) -> list[Row]:
    """Time all programs that support a setting, and compare each row with its `_baseline_row`."""
    single, narrow = setting.settings.batch_size == 1, setting.settings.n == 1
    able = [program for program in programs if (single or program.batches) and (narrow or program.beams)]
    timed = bool(able) and able[0].watch is not None
    together = [program for program in able if not program.most]
    rows: list[Row] = []
    for heat in filter(None, (together, *([program] for program in able if program.most))):
        for program, row in zip(heat, time_programs(heat, queries, setting), strict=True):
            facts = {
                "engine": program.name,
                "version": program.version,
                "runtime": program.runtime,
                "model": engine.name,
                "drafter": program.label or program.drafter,
                "dtype": program.dtype,
                "device": program.device,
                "note": program.note,
                "timed": timed,  # no speed-up without chemspec's standard decoder
                **_time_shares(program, sum(row.seconds) * _round_count(heat, queries, setting)),
            }
            rows.append(replace(row, facts=facts, baseline=_baseline_row(facts, rows)))
    return rows


def _baseline_row(facts: Mapping[str, Any], rows: Sequence[Row]) -> Row | None:
    """Return the baseline of a row; None for the first row of chemspec in a precision."""
    if facts["engine"] != "chemspec":
        return rows[0] if rows else None
    return next((row for row in rows if row.facts["dtype"] == facts["dtype"]), None)


def _query_limit(heat: Sequence[Program], setting: Setting) -> int | None:
    """Return how many queries suffice to measure these programs; None: all."""
    return min((most for program in heat if (most := program.most.get(setting.settings.decoder))), default=None)


def _round_count(heat: Sequence[Program], queries: Sequence[str], setting: Setting) -> int:
    """Return how often every batch is decoded."""
    return 1 if _query_limit(heat, setting) else -(-MIN_TIMINGS // -(-len(queries) // setting.settings.batch_size))


def time_programs(heat: Sequence[Program], queries: Sequence[str], setting: Setting) -> list[Row]:
    """Time programs batch by batch in turn: one row each, with mean seconds, and memory of the longest batch."""
    plain, batch, rounds = setting.settings, setting.settings.batch_size, _round_count(heat, queries, setting)
    queries = queries[: _query_limit(heat, setting)]
    by_length = sorted(queries, key=len)
    ordered = by_length if batch > 1 else list(queries)
    parts = [ordered[start : start + batch] for start in range(0, len(ordered), batch)]
    peaks = []
    for program in heat:
        longest = by_length[-max(WARM_UP_QUERIES, batch) :]
        program.prepare(longest, plain)
        reset_peak_memory()
        program.answer(longest, replace(plain, drafter=program.drafter))
        program.traces.clear()
        if program.watch:
            program.watch.encoder = 0.0
        peaks.append(peak_memory_mb())
    answers: list[Answers] = [[] for _ in heat]
    seconds: list[list[float]] = [[] for _ in heat]
    for number, part in enumerate(parts):
        for program in heat:
            program.prepare(part, plain)
        spent: list[list[float]] = [[] for _ in heat]
        for turn in range(rounds * len(heat)):
            which = (number + turn) % len(heat)
            began = time.perf_counter()
            answered = heat[which].answer(part, replace(plain, drafter=heat[which].drafter))
            spent[which].append(time.perf_counter() - began)
            time.sleep(heat[which].pause)
            if len(spent[which]) == 1:
                answers[which].extend(answered)
        for every, times in zip(seconds, spent, strict=True):
            every.append(sum(times) / rounds)
    sizes = tuple(map(len, parts))
    return [
        Row(setting, given, seconds=tuple(every), sizes=sizes, peak_mb=peak)
        for given, every, peak in zip(answers, seconds, peaks, strict=True)
    ]


def _time_shares(program: Program, seconds: float) -> dict[str, Any]:
    """Return counts from the traces, and the shares of time in the encoder, in decoder passes and on the host."""
    names = ("passes_per_query", "nodes_per_pass", "tokens_per_pass", "acceptance_rate")
    if not program.watch:
        return dict.fromkeys((*names, "drafted_per_query", "encoder_share", "model_share", "host_share"))
    counted = speed_numbers(program.traces)
    encoder, passes = program.watch.encoder / seconds, counted.model_seconds / seconds
    return {
        **{name: getattr(counted, name) for name in names},
        "drafted_per_query": counted.drafted / counted.queries,
        "encoder_share": encoder,
        "model_share": passes,
        "host_share": 1 - encoder - passes,
    }


def _report_row(row: Row, task: Task) -> dict[str, Any]:
    settings, facts, spread = row.setting.settings, dict(row.facts), row.times
    note, timed = facts.pop("note", ""), facts.pop("timed", True)
    # Paired by batch, so that long queries and load affect both sides; some programs run the first batches only.
    speedup = paired_ratio((row.baseline or row).per_query, row.per_query) if timed else (None,) * 3
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


@contextmanager
def _load_engines(task: Task, plan: BenchSettings) -> Iterator[list[Engine]]:
    """Load the task's model, or random weights of the preset architecture, in every precision."""
    options: dict[str, Any] = {name: getattr(plan, name) for name in ("device", "threads", "runtime")}
    if not plan.preset:
        yield [Engine.load(task, dtype=dtype, **options) for dtype in plan.dtypes]
        return
    tokenizer = Tokenizer.build(asset_files.bench_queries(task))
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as scratch:
        torch.manual_seed(0)
        model = Transformer(preset_config(plan.preset, vocab_size=len(tokenizer)))
        folder = Path(scratch) / f"{plan.preset}-random"
        checkpoint.save(folder, model, tokenizer, task=task)
        yield [Engine.load(folder, dtype=dtype, **options) for dtype in plan.dtypes]


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
