"""Other programs and decoders beside ours, on the same weights: `python tests/programs/other_programs.py --help`.

chemspec is compared with a drafter that was told the answer (oracle), a decoder
without a cache (naive) and CTranslate2 on one core and on all (ctranslate2, ctranslate2-all). Programs alternate batch
by batch, so that other load on the machine affects all of them alike.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.recompute import recompute
from helpers.scripts import option, script
from programs.opponent import Opponent, convert

from chemspec import tasks
from chemspec.bench import speed
from chemspec.bench.settings import BenchSettings
from chemspec.bench.sweep import Row, Setting, paired_ratio
from chemspec.cli import options as opt
from chemspec.engine.engine import Engine
from chemspec.io import tables
from chemspec.metrics import speed_numbers
from chemspec.model import checkpoint
from chemspec.settings import DecodeSettings
from chemspec.system.threads import set_torch_threads, usable_cores
from chemspec.tasks import check_task
from chemspec.terminal import console
from chemspec.tokenizer import UNK
from chemspec.types import Draft, Prefix, Trace
from chemspec.version import __version__

EARLY = "CTranslate2 stops once an ended candidate has led a step and n have ended: lower places may differ from ours"
SPINNING = 0.25  # seconds; threads of OpenMP look for work for 0.2
ORACLE = "oracle: a drafter that was told the answer, which no drafter can surpass on this machine"
WARM_UP_QUERIES = 5  # untimed queries (at least one batch): the longest
Answers = list[list[tuple[int, ...]]]  # per query, best first: token ids without bos and eos
PRECISIONS = {"float32": "fp32", "int8": "int8"}  # CTranslate2's names, and ours


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


def chemspec_programs(engine: Engine, drafters: Sequence[str]) -> list[Program]:
    """Return programs for an engine, one per drafter; the first decodes without drafts and is the baseline."""
    return [chemspec_program(engine, drafter) for drafter in dict.fromkeys(("none", *drafters))]


def oracle(engine: Engine) -> list[Program]:
    """Return this engine with a drafter that was told the answer, which no drafter can surpass here; greedy only.

    It needs one pass a query, of as many nodes as the answer has tokens, and no time to think.
    """
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    told = replace(engine, build_drafter=lambda *_: OracleDrafter(known))

    def prepare(queries: Sequence[str], settings: DecodeSettings) -> None:
        sources = [engine.prepare(text).ids for text in queries]
        for source, (best, *_) in zip(sources, engine.generate_ids(sources, settings), strict=True):
            known[source] = best.tokens

    # "copy" stands for any drafter: `build_drafter` makes another.
    program = chemspec_program(told, "copy", drafting="fixed")
    return [replace(program, drafter="oracle", prepare=prepare, note=ORACLE)]


@dataclass(frozen=True)
class OracleDrafter:
    """Drafts the rest of the answer, which it was told, by source."""

    answers: Mapping[tuple[int, ...], tuple[int, ...]]

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return what follows the prefix, at most `max_new_tokens` tokens."""
        rest = self.answers[tuple(source)][len(prefix) - 1 :]
        return [Draft(rest[:max_new_tokens], "oracle")] if rest else []


def naive(engine: Engine, threads: int) -> list[Program]:
    """Return the textbook decoder without a cache, in torch: every step runs every prefix anew (the encoder once)."""
    model = checkpoint.load(engine.folder).model

    def answer(queries: Sequence[str], settings: DecodeSettings) -> Answers:
        sources = [engine.prepare(text).ids for text in queries]
        with set_torch_threads(threads or usable_cores()):
            decoded = [recompute(model, source, settings) for source in sources]
        return [[_bare(item.tokens) for item in answers] for answers in decoded]

    return [Program("naive", f"torch {torch.__version__}", "torch", "fp32", "cpu", answer)]


def ctranslate2(engine: Engine, cores: int) -> list[Program]:
    """Return CTranslate2 on the CPU, in fp32 and in int8; whether one core or all are faster depends on the machine.

    Raises:
        ModuleNotFoundError: if it is not installed.
    """
    programs = []
    loaded = checkpoint.load(engine.folder)
    with tempfile.TemporaryDirectory() as scratch:
        folder = convert(loaded.model, loaded.tokenizer, Path(scratch) / "model")
        for precision in ("float32", "int8"):
            opponent = Opponent(folder, threads=cores, compute_type=precision)

            def answer(queries: Sequence[str], settings: DecodeSettings, opponent: Opponent = opponent) -> Answers:
                sources = [engine.prepare(text).ids for text in queries]
                width = settings.n if settings.decoder == "beam" else 1
                translated = opponent.translate(sources, width=width, count=width, max_len=settings.max_len)
                return [[_bare(tokens) for tokens, _ in answers] for answers in translated]

            runs = f"{opponent.compute_type}, {cores} threads", precision, "cpu"
            pause = SPINNING if cores > 1 else 0.0
            programs.append(Program("ctranslate2", opponent.version, *runs, answer, note=EARLY, pause=pause))
    return programs


# By name, in the order in which they run; what is compared with others in every precision comes first.
ENGINES: dict[str, Callable[[Engine, int, Sequence[str]], list[Program]]] = {
    "chemspec": lambda engine, _, drafters: chemspec_programs(engine, drafters),
    "oracle": lambda engine, *_: oracle(engine),
    "naive": lambda engine, threads, _: naive(engine, threads),
    "ctranslate2": lambda engine, *_: ctranslate2(engine, 1),
    "ctranslate2-all": lambda engine, threads, _: ctranslate2(engine, threads or usable_cores()),
}


def _bare(tokens: Sequence[int]) -> tuple[int, ...]:
    return tuple(token for token in tokens if token >= UNK)


# --- the race ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProgramRow(Row):
    """A row with the facts of its program."""

    facts: Mapping[str, Any] = field(default_factory=dict)


def run(
    plan: BenchSettings, names: Sequence[str], *, progress: Callable[[int, int], None] = lambda *_: None
) -> dict[str, Any]:
    """Measure as `speed.run_benchmark`, with the programs named; one that cannot run here is noted and left out."""
    for name in names:
        if name not in ENGINES:
            raise ValueError(f"no engine {name!r}; there are {', '.join(ENGINES)}")
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    loading: dict[str, Any] = {name: getattr(plan, name) for name in ("device", "threads", "runtime")}
    total, done = sum(len(speed.list_settings(plan, task)) for task in plan.tasks), 0
    for task in plan.tasks:
        engines = [Engine.load(task, dtype=dtype, **loading) for dtype in plan.dtypes]
        queries = [question.query for question in speed.read_queries(engines[0], plan.source, plan.limit)]
        able = programs(engines, plan, notes, names=names)
        for setting in speed.list_settings(plan, task):
            rows += [_report_row(row, task) for row in race(engines[0], queries, setting, programs=able)]
            done += 1
            progress(done, total)
    machine = {**speed.describe_machine(plan.threads), "plan": asdict(plan)}
    return {"machine": machine, "notes": list(dict.fromkeys(notes)), "rows": rows}


def _report_row(row: ProgramRow, task: str) -> dict[str, Any]:
    """Return a row of the report; a speed-up is against chemspec's standard decoder, or missing."""
    compared = replace(row, baseline=row.baseline or row).report()
    report = {"task": task, **compared, "identical": compared["same_list"] == 1, **row.facts}
    standard: Any = row.baseline or row
    if standard.facts["engine"] != "chemspec":
        report |= dict.fromkeys(("speedup", "speedup_low", "speedup_high"))
    return report


def programs(
    engines: Sequence[Engine], plan: BenchSettings, notes: list[str], *, names: Sequence[str]
) -> list[Program]:
    """Return all that can run here, chemspec first, since others are compared with it; note what cannot."""
    able: list[Program] = []
    for name in sorted(names, key=list(ENGINES).index):
        try:
            for engine in engines if name in ("chemspec", "oracle") else engines[:1]:
                able += ENGINES[name](engine, plan.threads, plan.drafters)
        except (ModuleNotFoundError, ValueError) as error:
            notes.append(f"{name} left out: {error}")
    return able


SLOW = {"naive": {"greedy": 20, "beam": 3}}  # slow and steady: so many queries tell its speed, by decoder


def race(engine: Engine, queries: Sequence[str], setting: Setting, *, programs: Sequence[Program]) -> list[ProgramRow]:
    """Time programs by turns, and compare our rows with CTranslate2's of their precision.

    The oracle decodes greedily only, slow programs one query at a time, by themselves, after the others.
    """
    settings = setting.settings
    together = [each for each in programs if each.name not in SLOW and (settings.n == 1 or each.drafter != "oracle")]
    rows = race_programs(engine, queries, setting, programs=together) if together else []
    for program in programs if settings.batch_size == 1 else ():
        if program.name in SLOW:
            few = queries[: SLOW[program.name][settings.decoder]]
            measured = race_programs(engine, few, setting, programs=[program], rounds=1)
            rows += [replace(row, baseline=rows[0] if rows else None) for row in measured]
    return [replace(row, facts={**row.facts, **_peer(row, rows)}) for row in rows]


def race_programs(
    engine: Engine, queries: Sequence[str], setting: Setting, *, programs: Sequence[Program], rounds: int = 0
) -> list[ProgramRow]:
    """Time programs, and compare each row with that of the standard decoder: of chemspec in its own precision."""
    rows: list[ProgramRow] = []
    for program, row in zip(programs, time_programs(programs, queries, setting, rounds=rounds), strict=True):
        names = ("version", "runtime", "drafter", "dtype", "device", "note")
        facts = {"engine": program.name, "model": engine.name, **{name: getattr(program, name) for name in names}}
        alike = [other for other in rows if other.facts["dtype"] == program.dtype]
        standard = (alike if program.name == "chemspec" else rows)[:1]
        facts |= {**row.facts, **_pass_counts(program)}
        rows.append(replace(row, facts=facts, baseline=standard[0] if standard else None))
    return rows


def reset_peak_memory() -> None:
    """Reset the peak memory of this process, if the system supports it (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mb() -> float:
    """Return the peak memory of this process in MB since `reset_peak_memory` (Linux), or since its start."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def time_programs(
    programs: Sequence[Program], queries: Sequence[str], setting: Setting, *, rounds: int = 0
) -> list[ProgramRow]:
    """Time programs batch by batch in turn: one row each, with mean seconds, and memory of the longest batch.

    Every batch is decoded in each of the `rounds`; 0: as many as give `MIN_TIMINGS`.
    """
    plain, batch = setting.settings, setting.settings.batch_size
    by_length = sorted(queries, key=len)
    ordered = by_length if batch > 1 else list(queries)
    parts = [ordered[start : start + batch] for start in range(0, len(ordered), batch)]
    rounds = rounds or -(-speed.MIN_TIMINGS // len(parts))
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
        ProgramRow(setting, given, seconds=tuple(every), sizes=sizes, facts={"peak_mb": peak})
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


def _peer(row: ProgramRow, rows: Sequence[ProgramRow]) -> dict[str, Any]:
    """Return how many times as fast as the faster CTranslate2 of its precision a row of ours is, with its interval."""
    peers = [
        other
        for other in rows
        if other.facts["engine"] == "ctranslate2" and PRECISIONS[other.facts["dtype"]] == row.facts["dtype"]
    ]
    if row.facts["engine"] != "chemspec" or not peers:
        return {"peer": None, "peer_low": None, "peer_high": None}
    fastest = min(peers, key=lambda other: sum(other.seconds))
    return dict(zip(("peer", "peer_low", "peer_high"), paired_ratio(fastest.per_query, row.per_query), strict=True))


COLUMNS = {
    "task": "{task}",
    "decoder": "{decoder}",
    "n": "{n}",
    "batch": "{batch}",
    "engine": "{engine} {version}",
    "runtime": "{runtime}",
    "drafter": "{drafter}",
    "dtype": "{dtype}",
    "queries": "{queries}",
    "ms/query": "{median_ms:.2f}",
    "quartiles": "{q1_ms:.2f}-{q3_ms:.2f}",
    "speed-up": "{speedup:.2f}",
    "95 %": "{speedup_low:.2f}-{speedup_high:.2f}",
    "× CTranslate2": "{peer:.2f}",
    "its 95 %": "{peer_low:.2f}-{peer_high:.2f}",
    "tok/s": "{tokens_per_second:.0f}",
    "passes": "{passes_per_query:.1f}",
    "nodes/pass": "{nodes_per_pass:.1f}",
    "tok/pass": "{tokens_per_pass:.2f}",
    "same list": "{same_list:.0%}",
    "same first": "{same_first:.0%}",
    "peak MB": "{peak_mb:.0f}",
}


def markdown(report: Mapping[str, Any], command: str) -> str:
    """Return the report for a document, with the command and the machine that gave it."""
    facts = {name: value for name, value in report["machine"].items() if name != "plan" and value is not None}
    machine = ", ".join(f"{name} {value}" for name, value in facts.items())
    remarks = dict.fromkeys([*report["notes"], *(row["note"] for row in report["rows"] if row["note"])])
    return "\n".join([f"`{command}`", "", machine, "", tables.markdown(COLUMNS, report["rows"]), "", *remarks])


def main(
    task: Annotated[str, option(f"{tasks.task_names('or')}; both: forward and retro.", "--task", "-t")] = "both",
    source: opt.Source = None,
    limit: Annotated[int, option("Queries per row.")] = 30,
    widths: Annotated[tuple[int, ...], option("Beam widths for retro; 1 is greedy.")] = (1, 5),
    batches: Annotated[tuple[int, ...], option("Batch sizes.")] = (1,),
    engines: Annotated[tuple[str, ...], option(f"Programs, with commas: {', '.join(ENGINES)}.")] = (
        "chemspec",
        "naive",
        "ctranslate2",
    ),
    drafters: Annotated[tuple[str, ...], option("Drafters of chemspec's rows, besides none.")] = (opt.DEFAULT.drafter,),
    threads: int = 0,
    device: str = "auto",
    dtype: Annotated[tuple[str, ...], option("Precisions of chemspec's rows, with commas.")] = ("fp32", "int8"),
    runtime: str = "auto",
    as_json: bool = False,
) -> None:
    """Time programs on the same queries and weights, by turns; prints a table in Markdown."""
    plan = BenchSettings(
        tasks=("forward", "retro") if task == "both" else (check_task(task),),
        source=source,
        limit=limit,
        widths=widths,
        batches=batches,
        drafters=drafters,
        threads=threads,
        device=device,
        dtypes=dtype,
        runtime=runtime,
    )
    with console.progress_bar("measuring") as report:
        measured = run(plan, engines, progress=report)
    if as_json:
        console.print_json(measured)
    else:
        console.print_line(markdown(measured, opt.command_line()))


app = script(main)
if __name__ == "__main__":
    app()
