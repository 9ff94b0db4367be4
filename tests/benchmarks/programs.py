"""Other programs and decoders beside ours, on the same weights: `python tests/benchmarks/programs.py --help`.

chemspec is compared with a drafter that was told the answer (oracle), a decoder
without a cache (naive) and CTranslate2 on one core and on all (ctranslate2, ctranslate2-all).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.opponent import Opponent, convert
from recompute import recompute
from scripts import option, script

from chemspec import tasks
from chemspec.bench import speed
from chemspec.bench.programs import Answer, Answers, Program, chemspec_program, chemspec_programs, time_encoder
from chemspec.bench.sweep import Row, Setting, paired_ratio
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.engine.engine import Engine
from chemspec.io import tables
from chemspec.model import checkpoint
from chemspec.settings import DecodeSettings
from chemspec.system.threads import set_torch_threads, usable_cores
from chemspec.tokenizer import UNK
from chemspec.types import Draft, Prefix

EARLY = "CTranslate2 stops once an ended candidate has led a step and n have ended: lower places may differ from ours"
SPINNING = 0.25  # seconds; threads of OpenMP look for work for 0.2
ORACLE = "oracle: a drafter that was told the answer, which no drafter can surpass on this machine"
PRECISIONS = {"float32": "fp32", "int8": "int8"}  # CTranslate2's names, and ours


def oracle(engine: Engine) -> list[Program]:
    """Return this engine with a drafter that was told the answer, which no drafter can surpass here; greedy only.

    It needs one pass a query, of as many nodes as the answer has tokens, and no time to think.
    """
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    timed, watch = time_encoder(engine)
    timed = replace(timed, build_drafter=lambda *_: OracleDrafter(known))

    def prepare(queries: Sequence[str], settings: DecodeSettings) -> None:
        sources = [engine.prepare(text).ids for text in queries]
        for source, (best, *_) in zip(sources, engine.generate_ids(sources, settings), strict=True):
            known[source] = best.tokens

    # "copy" stands for any drafter: `build_drafter` makes another.
    program = chemspec_program(timed, watch, "copy", drafting="fixed")
    return [replace(program, label="oracle", prepare=prepare, beams=False, note=ORACLE)]


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

    version = f"torch {torch.__version__}"
    # Slow and steady: a few queries tell its speed.
    most = {"greedy": 20, "beam": 3}
    return [Program("naive", version, "torch", "fp32", "cpu", answer, batches=False, most=most)]


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


def _bare(tokens: Sequence[int]) -> Answer:
    return tuple(token for token in tokens if token >= UNK)


# --- the race ------------------------------------------------------------------------------------


def run(plan: speed.BenchSettings, engines: Sequence[str], **options: Any) -> dict[str, Any]:
    """Measure as `speed.run` does, with the programs named; one that cannot run here is noted and left out."""
    for name in engines:
        if name not in ENGINES:
            raise ValueError(f"no engine {name!r}; there are {', '.join(ENGINES)}")
    return speed.run_benchmark(plan, programs=partial(programs, names=engines), race=race, **options)


def programs(
    engines: Sequence[Engine], plan: speed.BenchSettings, notes: list[str], *, names: Sequence[str]
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


def race(engine: Engine, queries: Sequence[str], setting: Setting, **options: Any) -> list[Row]:
    """Race as `speed.by_turns` does, and compare our rows with CTranslate2's of their precision."""
    rows = speed.race_programs(engine, queries, setting, **options)
    return [replace(row, facts={**row.facts, **_peer(row, rows)}) for row in rows]


def _peer(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
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
    "Python": "{host_share:.0%}",
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
    widths: Annotated[str, option("Beam widths for retro; 1 is greedy.")] = "1,5",
    batches: Annotated[str, option("Batch sizes.")] = "1",
    engines: Annotated[str, option(f"Programs, with commas: {', '.join(ENGINES)}.")] = "chemspec,naive,ctranslate2",
    drafters: Annotated[str, option("Drafters of chemspec's rows, besides none.")] = opt.DEFAULT.drafter,
    preset: Annotated[str, option("Time this architecture with random weights instead of the models.")] = "",
    threads: int = 0,
    device: str = "auto",
    dtype: Annotated[str, option("Precisions of chemspec's rows, with commas.")] = "fp32,int8",
    runtime: str = "auto",
    as_json: bool = False,
) -> None:
    """Time programs on the same queries and weights, by turns; prints a table in Markdown."""
    plan = speed.BenchSettings(
        tasks=("forward", "retro") if task == "both" else (opt.parse_task(task),),
        source=source,
        limit=limit,
        widths=opt.parse_integers("widths", widths),
        batches=opt.parse_integers("batches", batches),
        drafters=opt.split_words(drafters),
        preset=preset,
        threads=threads,
        device=device,
        dtypes=opt.split_words(dtype),
        runtime=runtime,
    )
    with show.progress_bar("measuring") as report:
        measured = run(plan, opt.split_words(engines), progress=report)
    if as_json:
        show.print_json(measured)
    else:
        show.print_line(markdown(measured, opt.command_line()))


app = script(main)
if __name__ == "__main__":
    app()
