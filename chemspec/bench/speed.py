"""Speed, measured: the same weights, queries and machine for every row, in one run.

chemspec with its drafters takes turns, batch by batch, so that what else the machine does falls on all of them alike;
other programs,
which keep threads of their own, run one after the other.
"""

from __future__ import annotations

import os
import platform
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.table import Table

from chemspec import __version__
from chemspec.bench.baselines import ENGINES, Answers, Racer
from chemspec.engine.engine import Engine
from chemspec.evaluation import reference
from chemspec.metrics import Spread, numbers
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings, Task, preset
from chemspec.tokenizer import Tokenizer

WARM_UP = 5  # queries answered before the clock starts, or one batch if that is more: the longest
BATCHES = 20  # at least so many times are taken: fewer batches are answered several times
TYPICAL = 45  # tokens of an answer; random weights seldom end by themselves

Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What to measure; see `chemspec bench --help`."""

    tasks: tuple[Task, ...] = ("forward", "retro")
    source: Path | None = None
    limit: int = 200
    widths: tuple[int, ...] = (5, 10, 25)
    batches: tuple[int, ...] = (1, 32)
    engines: tuple[str, ...] = ("naive", "ctranslate2", "chemspec")
    drafters: tuple[str, ...] = ("none",)
    preset: str = ""
    threads: int = 0
    device: str = "auto"
    dtype: str = "auto"
    runtime: str = "auto"

    def __post_init__(self) -> None:
        for name in self.engines:
            if name not in ENGINES:
                raise ValueError(f"no engine {name!r}; there are {', '.join(ENGINES)}")
        if min((*self.widths, *self.batches, self.limit)) < 1:
            raise ValueError("widths, batches and limit must be at least 1")

    def cases(self, task: Task) -> list[Case]:
        widths = self.widths if task == "retro" else (1,)
        kinds = [("beam" if width > 1 else "greedy", width) for width in widths]
        return [Case(task, decoder, n, batch) for decoder, n in kinds for batch in self.batches]


class Case(NamedTuple):
    """A way to decode, without saying by which program."""

    task: Task
    decoder: str
    n: int
    batch: int


class Run(NamedTuple):
    """One row as measured: mean seconds of each batch, how many queries it held, and what came out."""

    seconds: list[float]
    sizes: list[int]
    answers: Answers
    rounds: int = 1
    peak_mb: float = 0.0  # while the longest batch was answered

    def per_query(self) -> list[float]:
        """Milliseconds a query, one figure a batch."""
        return [1e3 * spent / size for spent, size in zip(self.seconds, self.sizes, strict=True)]


def run(plan: Plan, *, progress: Callable[[int, int], None] = lambda *_: None) -> dict[str, Any]:
    """Measure every row of the plan.

    Returns:
        `{"machine": ..., "notes": [...], "rows": [...]}`. Speed-ups are medians over batches against chemspec's own
        cached
        standard decoder (drafter none) on the same queries, or null where that was not measured; `identical` compares
        with
        its answers.
    """
    rows: list[Row] = []
    told: list[str] = []
    work = [(task, case) for task in plan.tasks for case in plan.cases(task)]
    for task in plan.tasks:
        with _engine(task, plan) as engine:
            queries = _queries(engine, plan)
            racers = _racers(engine, plan, told)
            for case in plan.cases(task):
                rows += _race(racers, engine, queries, case, plan)
                progress(1 + work.index((task, case)), len(work))
    return {"machine": machine(plan), "notes": list(dict.fromkeys(told)), "rows": rows}


def _racers(engine: Engine, plan: Plan, told: list[str]) -> list[Racer]:
    """All that can run here; what cannot is told. chemspec comes first: others are compared with it."""
    racers: list[Racer] = []
    for name in sorted(plan.engines, key=list(ENGINES).index):
        try:
            racers += ENGINES[name](engine, plan.threads, plan.drafters)
        except (ModuleNotFoundError, ValueError) as error:
            told.append(f"{name} left out: {error}")
    return racers


def _race(racers: Sequence[Racer], engine: Engine, queries: Sequence[str], case: Case, plan: Plan) -> list[Row]:
    """The rows of one case."""
    limit: dict[str, Any] = {"max_len": TYPICAL} if plan.preset else {}
    plain = DecodeSettings(decoder=case.decoder, n=case.n, batch_size=case.batch, **limit)
    racers = [racer for racer in racers if case.batch == 1 or racer.batches]
    racers = [racer for racer in racers if case.n == 1 or racer.beams]
    ours = [racer for racer in racers if racer.watch]
    heats = [heat for heat in (ours, *([racer] for racer in racers if not racer.watch)) if heat]
    measured = [found for heat in heats for found in _measure(heat, queries, plain)]
    standard = measured[0]
    base = standard if ours else None
    return [
        {
            **case._asdict(),
            "engine": racer.name,
            "version": racer.version,
            "runtime": racer.runtime,
            "model": engine.name,
            "drafter": racer.label or racer.drafter,
            "dtype": racer.dtype,
            "device": racer.device,
            **_times(own, base),
            **_agreement(own.answers, standard.answers),
            **_shares(racer, sum(own.seconds) * own.rounds),
            "peak_mb": own.peak_mb,
            "note": racer.note,
        }
        for racer, own in zip([racer for heat in heats for racer in heat], measured, strict=True)
    ]


def _measure(heat: Sequence[Racer], queries: Sequence[str], plain: DecodeSettings) -> list[Run]:
    """Answer all queries in batches; racers of one heat take turns, and who is first changes with the batch."""
    batch = plain.batch_size
    few = min((most for racer in heat if (most := racer.most.get(plain.decoder))), default=None)
    queries = queries[:few]
    by_length = sorted(queries, key=len)
    # Every program gets its batches sorted by length, so that none is punished for the other's padding.
    ordered = by_length if batch > 1 else list(queries)
    starts = range(0, len(ordered), batch)
    rounds = 1 if few else -(-BATCHES // len(starts))
    done = []
    for racer in heat:
        first = by_length[-max(WARM_UP, batch) :]
        racer.prepare(first, plain)
        reset_peak()
        racer.answer(first, replace(plain, drafter=racer.drafter))
        racer.traces.clear()
        if racer.watch:
            racer.watch.encoder = racer.watch.passes = 0.0
        done.append(Run([], [], [], rounds, peak_mb()))
    for number, start in enumerate(starts):
        part = ordered[start : start + batch]
        for racer in heat:
            racer.prepare(part, plain)
        spent: list[list[float]] = [[] for _ in heat]
        for turn in range(rounds * len(heat)):
            which = (number + turn) % len(heat)
            racer = heat[which]
            began = time.perf_counter()
            answers = racer.answer(part, replace(plain, drafter=racer.drafter))
            spent[which].append(time.perf_counter() - began)
            if len(spent[which]) == 1:
                done[which].answers.extend(answers)
        for own, times in zip(done, spent, strict=True):
            own.seconds.append(sum(times) / rounds)
            own.sizes.append(len(part))
    return done


def _shares(racer: Racer, seconds: float) -> Row:
    """Counts from the traces; and the shares of time in the encoder, in decoder passes, and in Python."""
    if not racer.watch:
        names = ("passes_per_query", "nodes_per_pass", "tokens_per_pass", "acceptance_rate")
        return dict.fromkeys((*names, "encoder_share", "model_share", "host_share"))
    counted = numbers(racer.traces)
    encoder, passes = racer.watch.encoder / seconds, racer.watch.passes / seconds
    return {
        "passes_per_query": counted.passes_per_query,
        "nodes_per_pass": counted.nodes_per_pass,
        "tokens_per_pass": counted.tokens_per_pass,
        "acceptance_rate": counted.acceptance_rate,
        "encoder_share": encoder,
        "model_share": passes,
        "host_share": 1 - encoder - passes,
    }


def _times(measured: Run, standard: Run | None) -> Row:
    times = measured.per_query()
    spread = Spread.of(times)
    # Some racers only run the first queries: the standard is then taken on the same ones.
    base = standard.per_query()[: len(times)] if standard else None
    tokens = sum(len(answers[0]) + 1 for answers in measured.answers if answers)
    return {
        "queries": sum(measured.sizes),
        "median_ms": spread.median,
        "q1_ms": spread.low,
        "q3_ms": spread.high,
        "mean_ms": 1e3 * sum(measured.seconds) / sum(measured.sizes),
        "tokens_per_second": tokens / sum(measured.seconds),  # of first answers, eos included
        # Batch by batch, so that long queries and a busy moment weigh on both sides.
        "speedup": Spread.of([b / t for b, t in zip(base, times, strict=True)]).median if base else None,
    }


def _agreement(answers: Answers, standard: Answers) -> Row:
    """How often the whole n-best list and the first answer equal those of the standard decoder."""
    pairs = list(zip(answers, standard, strict=False))
    same = sum(one == other for one, other in pairs)
    first = sum(one[:1] == other[:1] for one, other in pairs)
    return {"identical": same == len(pairs), "same_list": same / len(pairs), "same_first": first / len(pairs)}


@contextmanager
def _engine(task: Task, plan: Plan) -> Iterator[Engine]:
    """The task's model, or random weights of the preset architecture."""
    options: dict[str, Any] = {
        "device": plan.device,
        "dtype": plan.dtype,
        "threads": plan.threads,
        "runtime": plan.runtime,
    }
    if not plan.preset:
        yield Engine.load(task, **options)
        return
    tokenizer = Tokenizer.build(reference.bench_queries(task))
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as scratch:
        torch.manual_seed(0)
        model = Transformer(preset(plan.preset, vocab_size=len(tokenizer)))
        folder = Path(scratch) / f"{plan.preset}-random"
        checkpoint.save(folder, model, tokenizer, task=task)
        yield Engine.load(folder, **options)


def _queries(engine: Engine, plan: Plan) -> list[str]:
    texts: Sequence[str]
    if plan.source is None:
        texts = reference.bench_queries(engine.task)
    else:
        from chemspec.evaluation.accuracy import questions

        file = plan.source / f"{engine.task}_test.csv.gz"
        texts = [item.query for item in questions(file, engine.task, limit=plan.limit)]
    usable = [text for text in texts if not engine.prepare(text).refusal]
    if not usable:
        raise ValueError(f"model {engine.name!r} can read none of the queries")
    return usable[: plan.limit]


# --- the machine ---------------------------------------------------------------------------------


def reset_peak() -> None:
    """Forget the peak of memory so far, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_mb() -> float:
    """The most memory this process held, with all racers loaded, since `reset_peak`, or since it began; in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if platform.system() == "Darwin" else peak * 1024 / 1e6


def machine(plan: Plan) -> dict[str, Any]:
    """What the numbers depend on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text().splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        cpu = names[0] if names else cpu
    gpu = torch.cuda.is_available()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": plan.threads or os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "gpu": torch.cuda.get_device_name() if gpu else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "onnxruntime": version("onnxruntime"),
        "chemspec": __version__,
        "date": time.strftime("%Y-%m-%d"),
        "warm_up": WARM_UP,
        "plan": {**asdict(plan), "source": str(plan.source) if plan.source else None},
    }


# --- for people ----------------------------------------------------------------------------------

HEAD = (
    "task",
    "decoder",
    "n",
    "batch",
    "engine",
    "runtime",
    "drafter",
    "dtype",
    "queries",
    "ms/query",
    "quartiles",
    "speed-up",
    "tok/s",
    "passes",
    "nodes/pass",
    "tok/pass",
    "Python",
    "same list",
    "same first",
    "peak MB",
)


def table(report: dict[str, Any]) -> Table:
    """The report for people."""
    caption = "\n".join(_remarks(report)) or None
    out = Table(*HEAD, box=None, caption=caption, caption_justify="left")
    for row in report["rows"]:
        out.add_row(*_cells(row))
    return out


def markdown(report: dict[str, Any], command: str) -> str:
    """The report for a document, with the command and the machine that gave it."""
    machine = {name: value for name, value in report["machine"].items() if name != "plan"}
    told = ", ".join(f"{name} {value}" for name, value in machine.items() if value is not None)
    lines = [f"`{command}`", "", told, "", "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in report["rows"]]
    return "\n".join([*lines, "", *_remarks(report), ""])


def _remarks(report: dict[str, Any]) -> list[str]:
    told = dict.fromkeys([*report["notes"], *(row["note"] for row in report["rows"])])
    return [text for text in told if text]


def _cells(row: Row) -> list[str]:
    cells = [
        row["task"],
        row["decoder"],
        row["n"],
        row["batch"],
        f"{row['engine']} {row['version']}",
        row["runtime"],
        row["drafter"],
        row["dtype"],
        row["queries"],
        f"{row['median_ms']:.2f}",
        f"{row['q1_ms']:.2f}-{row['q3_ms']:.2f}",
        _shown(row["speedup"], ".2f"),
        f"{row['tokens_per_second']:.0f}",
        _shown(row["passes_per_query"], ".1f"),
        _shown(row["nodes_per_pass"], ".1f"),
        _shown(row["tokens_per_pass"], ".2f"),
        _shown(row["host_share"], ".0%"),
        f"{row['same_list']:.0%}",
        f"{row['same_first']:.0%}",
        f"{row['peak_mb']:.0f}",
    ]
    assert len(cells) == len(HEAD)
    return list(map(str, cells))


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
