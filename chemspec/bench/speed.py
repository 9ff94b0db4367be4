"""Measure speed: the same weights, queries and machine for every row, in one run.

Programs take turns, batch by batch, so that what else the machine does falls on all of them alike; only one that is so
slow that a few queries have to tell its speed runs by itself, after the others.
"""

from __future__ import annotations

import platform
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from chemspec import asset_files
from chemspec.bench.programs import Answers, Program, chemspec
from chemspec.bench.sweep import Progress, Row, Setting, paired_ratio, sweep
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import KnownReaction, questions
from chemspec.metrics import speed_numbers
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings, Task, preset_config
from chemspec.system import extras, host
from chemspec.system.threads import usable_cores
from chemspec.tokenizer import Tokenizer
from chemspec.version import __version__

WARM_UP = 5  # queries answered before the clock starts, or one batch if that is more: the longest
BATCHES = 20  # at least so many times are taken: fewer batches are answered several times
TYPICAL = 45  # tokens of an answer; random weights seldom end by themselves


@dataclass(frozen=True)
class BenchSettings:
    """What to measure; see `chemspec bench --help`."""

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
        """Return the ways to decode, without saying by which program."""
        limit: dict[str, Any] = {"max_len": TYPICAL} if self.preset else {}
        return [
            Setting(
                f"{task}, {n}, {batch}",
                DecodeSettings(decoder="beam" if n > 1 else "greedy", n=n, batch_size=batch, **limit),
            )
            for n in (self.widths if task == "retro" else (1,))
            for batch in self.batches
        ]


def drafted(engines: Sequence[Engine], plan: BenchSettings, _: list[str]) -> list[Program]:
    """Return chemspec in every precision, without drafts first, since the other rows are compared with that."""
    return [program for engine in engines for program in chemspec(engine, plan.drafters)]


def run(
    plan: BenchSettings,
    *,
    programs: Callable[[Sequence[Engine], BenchSettings, list[str]], list[Program]] = drafted,
    race: Callable[..., Sequence[Row]] | None = None,
    progress: Progress = lambda *_: None,
) -> dict[str, Any]:
    """Measure every row of the plan.

    Args:
        plan: what to measure.
        programs: makes what is timed, from the task's engines, the plan and a list for notes.
        race: takes the times of one setting, as `by_turns` does.
        progress: is told how many settings of how many are done.

    Returns:
        `{"machine": ..., "notes": [...], "rows": [...]}`. Speed-ups are medians over batches against chemspec's own
        cached standard decoder (drafter none) on the same queries, or null where that was not measured; `identical`
        compares with its answers. Rows of chemspec are compared with the standard decoder in their own precision, those
        of other programs with that in the first. A speed-up is told with its 95 % interval (bootstrap over batches).
    """
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    total, done = sum(len(plan.settings(task)) for task in plan.tasks), 0
    for task in plan.tasks:
        with _engines(task, plan) as engines:
            engine = engines[0]
            queries = [question.query for question in asked(engine, plan.source, plan.limit)]
            settings = plan.settings(task)
            measured = sweep(
                engine,
                queries,
                settings,
                measure=partial(race or by_turns, programs=programs(engines, plan, notes)),
                progress=lambda some, _, before=done: progress(before + some, total),  # type: ignore[misc]
            )
            rows += [_facts(row, task) for row in measured]
            done += len(settings)
    facts = {**machine(plan.threads), "warm_up": WARM_UP, "plan": asdict(plan)}
    return {"machine": facts, "notes": list(dict.fromkeys(notes)), "rows": rows}


def by_turns(engine: Engine, queries: Sequence[str], setting: Setting, *, programs: Sequence[Program]) -> list[Row]:
    """Take the time of every program that can decode so, and compare each row with its `_standard`.

    Args:
        engine: whose model the programs run.
        queries: SMILES.
        setting: how to decode.
        programs: chemspec first.
    """
    able = [
        program
        for program in programs
        if (setting.settings.batch_size == 1 or program.batches) and (setting.settings.n == 1 or program.beams)
    ]
    timed = bool(able) and able[0].watch is not None
    together = [program for program in able if not program.most]
    rows: list[Row] = []
    for heat in filter(None, (together, *([program] for program in able if program.most))):
        for program, row in zip(heat, measure(heat, queries, setting), strict=True):
            facts = {
                "engine": program.name,
                "version": program.version,
                "runtime": program.runtime,
                "model": engine.name,
                "drafter": program.label or program.drafter,
                "dtype": program.dtype,
                "device": program.device,
                "note": program.note,
                "timed": timed,  # against chemspec's standard decoder, else there is no speed-up
                **_shares(program, sum(row.seconds) * _rounds(heat, queries, setting)),
            }
            rows.append(replace(row, facts=facts, baseline=_standard(facts, rows)))
    return rows


def _standard(facts: Mapping[str, Any], rows: Sequence[Row]) -> Row | None:
    """Return the row that a later one is compared with, None for the first of a precision of chemspec.

    Args:
        facts: of the later row.
        rows: those before it, in every precision of chemspec the one without drafts first.
    """
    if facts["engine"] != "chemspec":
        return rows[0] if rows else None
    return next((row for row in rows if row.facts["dtype"] == facts["dtype"]), None)


def _few(heat: Sequence[Program], setting: Setting) -> int | None:
    """Return how many queries suffice to tell the speed of these programs; None is all."""
    return min((most for program in heat if (most := program.most.get(setting.settings.decoder))), default=None)


def _rounds(heat: Sequence[Program], queries: Sequence[str], setting: Setting) -> int:
    """Return how often every batch is answered."""
    return 1 if _few(heat, setting) else -(-BATCHES // -(-len(queries) // setting.settings.batch_size))


def measure(heat: Sequence[Program], queries: Sequence[str], setting: Setting) -> list[Row]:
    """Answer all queries in batches; programs take turns, and who is first changes with the batch.

    Args:
        heat: programs.
        queries: SMILES; every program gets its batches sorted by length, so that none is punished for another's
            padding.
        setting: how to decode.

    Returns:
        A row a program, in their order, whose seconds are means over rounds, and whose memory is that of the longest
        batch.
    """
    plain, batch, rounds = setting.settings, setting.settings.batch_size, _rounds(heat, queries, setting)
    queries = queries[: _few(heat, setting)]
    by_length = sorted(queries, key=len)
    ordered = by_length if batch > 1 else list(queries)
    parts = [ordered[start : start + batch] for start in range(0, len(ordered), batch)]
    peaks = []
    for program in heat:
        longest = by_length[-max(WARM_UP, batch) :]
        program.prepare(longest, plain)
        reset_peak()
        program.answer(longest, replace(plain, drafter=program.drafter))
        program.traces.clear()
        if program.watch:
            program.watch.encoder = 0.0
        peaks.append(peak_mb())
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


def _shares(program: Program, seconds: float) -> dict[str, Any]:
    """Return counts from the traces, and the shares of time in the encoder, in decoder passes, and in Python."""
    names = ("passes_per_query", "nodes_per_pass", "tokens_per_pass", "acceptance_rate")
    if not program.watch:
        return dict.fromkeys((*names, "encoder_share", "model_share", "host_share"))
    counted = speed_numbers(program.traces)
    encoder, passes = program.watch.encoder / seconds, counted.model_seconds / seconds
    return {
        **{name: getattr(counted, name) for name in names},
        "encoder_share": encoder,
        "model_share": passes,
        "host_share": 1 - encoder - passes,
    }


def _facts(row: Row, task: Task) -> dict[str, Any]:
    """Return a row of the report."""
    how, facts = row.setting.settings, dict(row.facts)
    note, timed = facts.pop("note"), facts.pop("timed")
    head = {"task": task, "decoder": how.decoder, "n": how.n, "batch": how.batch_size}
    return {**head, **facts, **_times(row, timed=timed), **_agreement(row), "peak_mb": row.peak_mb, "note": note}


def _times(row: Row, *, timed: bool = True) -> dict[str, Any]:
    """Return times and the speed-up against the baseline, which is None if that is not to be compared with."""
    spread = row.times
    # Batch by batch, so that long queries and a busy moment weigh on both sides; some programs only run the first.
    speedup = paired_ratio((row.baseline or row).per_query, row.per_query) if timed else (None,) * 3
    tokens = sum(len(answers[0]) + 1 for answers in row.answers if answers)
    return {
        "queries": sum(row.sizes),
        "median_ms": spread.median,
        "q1_ms": spread.low,
        "q3_ms": spread.high,
        "mean_ms": 1e3 * sum(row.seconds) / sum(row.sizes),
        "tokens_per_second": tokens / sum(row.seconds),  # of first answers, eos included
        **dict(zip(("speedup", "speedup_low", "speedup_high"), speedup, strict=True)),
    }


def _agreement(row: Row) -> dict[str, Any]:
    """Return how often the whole n-best list and the first answer equal those of the standard decoder."""
    same, first = row.same(), row.same(first=True)
    return {"identical": all(same), "same_list": fmean(same), "same_first": fmean(first)}


@contextmanager
def _engines(task: Task, plan: BenchSettings) -> Iterator[list[Engine]]:
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


def asked(engine: Engine, source: Path | None, limit: int) -> list[KnownReaction]:
    """Return queries that the model can read, with their true answers where they are known.

    Args:
        engine: of a model for the queries' task.
        source: folder with the test sets; None takes the built-in queries, which have no answers.
        limit: most queries.

    Raises:
        ValueError: if the model can read none.
    """
    if source is None:
        known = [KnownReaction(text, "") for text in asset_files.bench_queries(engine.task)]
    else:
        known = questions(source / f"{engine.task}_test.csv.gz", engine.task, limit=limit)
    readable = [question for question in known if not engine.prepare(question.query).refusal]
    if not readable:
        raise ValueError(f"model {engine.name!r} can read none of the queries")
    return readable[:limit]


# --- the machine ---------------------------------------------------------------------------------


def reset_peak() -> None:
    """Forget the peak of memory so far, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_mb() -> float:
    """Return the most memory in MB that this process held, all programs loaded, since `reset_peak` or its start."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if platform.system() == "Darwin" else peak * 1024 / 1e6


def machine(threads: int) -> dict[str, Any]:
    """Return what the numbers depend on; 0 threads are those of all cores."""
    return {
        "cpu": host.processor(),
        "cores": usable_cores(),
        "threads": threads or usable_cores(),
        "load": round(host.load(), 2),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "onnxruntime": version("onnxruntime") if extras.installed("onnxruntime") else None,
        "chemspec": __version__,
        "date": time.strftime("%Y-%m-%d"),
    }
