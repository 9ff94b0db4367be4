"""Run the benchmark's programs on the same weights: this engine, the decoder without a cache, and CTranslate2.

A program answers queries with token ids. It is made once per task and used for every row of it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch

from chemspec import __version__
from chemspec.engine.engine import Engine
from chemspec.evaluation import reference
from chemspec.model import checkpoint
from chemspec.model.session import Backend, Runner
from chemspec.settings import DecodeSettings
from chemspec.system.threads import torch_threads, usable_cores
from chemspec.tokenizer import UNK
from chemspec.types import Draft, Prefix, Trace

Answer = tuple[int, ...]  # token ids without bos and eos
Answers = list[list[Answer]]  # of each query, best first

EARLY = "CTranslate2 stops once an ended candidate has led a step and n have ended: lower places may differ from ours"
SPINNING = 0.25  # seconds; threads of OpenMP look for work for 0.2
ORACLE = "oracle: a drafter that was told the answer, which no drafter can surpass on this machine"


@dataclass
class Program:
    """One program, in one precision, with one drafter.

    Attributes:
        name, version: of the program.
        runtime: what does the arithmetic.
        dtype, device: of the arithmetic.
        answer: from the queries of one batch and how to decode, the answers.
        drafter, label: what the settings ask for, and what tables call it where that is something else.
        prepare: what it may do with a batch before the clock starts.
        batches: whether it can answer several queries at once.
        beams: whether it can do more than greedy decoding.
        most: how many queries suffice to tell its speed, by decoder; all where it is not named.
        note: what one has to know to read its rows.
        pause: seconds after each answer until its threads sleep; while they wait for more they take others' time.
        watch, traces: where the time went, if the program can tell; both grow with every answer.
    """

    name: str
    version: str
    runtime: str
    dtype: str
    device: str
    answer: Callable[[Sequence[str], DecodeSettings], Answers]
    drafter: str = "none"
    label: str = ""
    prepare: Callable[[Sequence[str], DecodeSettings], None] = lambda *_: None
    batches: bool = True
    beams: bool = True
    most: dict[str, int] = field(default_factory=dict)
    note: str = ""
    pause: float = 0.0
    watch: TimedBackend | None = None
    traces: list[Trace] = field(default_factory=list)


def chemspec(engine: Engine, drafters: Sequence[str]) -> list[Program]:
    """Return this engine, first without drafts: the standard that all rows are compared with."""
    return [_ours(*_timed(engine), drafter) for drafter in dict.fromkeys(("none", *drafters))]


def oracle(engine: Engine) -> list[Program]:
    """Return this engine with a drafter that was told the answer, which no drafter can surpass here; greedy only.

    It needs one pass a query, of as many nodes as the answer has tokens, and no time to think.
    """
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    timed, watch = _timed(engine)
    timed = replace(timed, build_drafter=lambda *_: OracleDrafter(known))

    def prepare(queries: Sequence[str], settings: DecodeSettings) -> None:
        sources = [engine.prepare(text).ids for text in queries]
        for source, (best, *_) in zip(sources, engine.write(sources, settings), strict=True):
            known[source] = best.tokens

    # "copy" stands for any drafter: `build_drafter` makes another.
    program = _ours(timed, watch, "copy", drafting="fixed")
    return [replace(program, label="oracle", prepare=prepare, beams=False, note=ORACLE)]


@dataclass(frozen=True)
class OracleDrafter:
    """Drafts the rest of the answer, which it was told, by source."""

    answers: Mapping[tuple[int, ...], tuple[int, ...]]

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return what follows the prefix, at most `max_new_tokens` tokens."""
        rest = self.answers[tuple(source)][len(prefix) - 1 :]
        return [Draft(rest[:max_new_tokens], "oracle")] if rest else []


def _ours(timed: Engine, watch: TimedBackend, drafter: str, **options: Any) -> Program:
    ids = {token: index for index, token in enumerate(timed.tokenizer.tokens)}
    traces: list[Trace] = []

    def answer(queries: Sequence[str], settings: DecodeSettings) -> Answers:
        results = timed.predict(queries, settings, **options)
        traces.extend(result.trace for result in results)
        return [[tuple(ids[token] for token in item.tokens) for item in result.hypotheses] for result in results]

    runs = timed.runtime, timed.dtype, timed.device
    return Program("chemspec", __version__, *runs, answer, drafter, watch=watch, traces=traces)


def naive(engine: Engine, threads: int) -> list[Program]:
    """Return the textbook decoder without a cache, in torch: every step runs every prefix anew (the encoder once)."""
    model = checkpoint.load(engine.folder).model

    def answer(queries: Sequence[str], settings: DecodeSettings) -> Answers:
        sources = [engine.prepare(text).ids for text in queries]
        with torch_threads(threads or usable_cores()):
            decoded = [reference.recompute(model, source, settings) for source in sources]
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
    from chemspec.bench.ctranslate2 import Opponent, convert

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


def onnx(engine: Engine, threads: int) -> list[Program]:
    """Return our standard decoder with ONNX Runtime for its passes.

    Raises:
        ModuleNotFoundError, ValueError: if ONNX Runtime cannot be had here.
    """
    other = Engine.load(engine.folder, device="cpu", dtype="fp32", threads=threads, runtime="onnx")
    return [replace(program, pause=SPINNING) for program in chemspec(other, ())]


# By name, in the order in which they run; what is compared with others in every precision comes first.
ENGINES: dict[str, Callable[[Engine, int, Sequence[str]], list[Program]]] = {
    "chemspec": lambda engine, _, drafters: chemspec(engine, drafters),
    "oracle": lambda engine, *_: oracle(engine),
    "onnx": lambda engine, threads, _: onnx(engine, threads),
    "naive": lambda engine, threads, _: naive(engine, threads),
    "ctranslate2": lambda engine, *_: ctranslate2(engine, 1),
    "ctranslate2-all": lambda engine, threads, _: ctranslate2(engine, threads or usable_cores()),
}


def _bare(tokens: Sequence[int]) -> Answer:
    return tuple(token for token in tokens if token >= UNK)


# --- where the time goes -------------------------------------------------------------------------


@dataclass
class TimedBackend:
    """A backend that also measures the seconds spent in the encoder; those in passes are in the traces."""

    backend: Backend
    encoder: float = 0.0

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Runner:
        """Encode the sources, on the clock; what comes back encodes those that join on it, too."""
        runner: Any = self._timed(self.backend.open)(sources, top_k=top_k)
        if hasattr(runner, "join"):  # a `session.JoinableRunner`
            runner.join = self._timed(runner.join)
        return cast(Runner, runner)

    def _timed(self, encode: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **options: Any) -> Any:
            began = time.perf_counter()
            try:
                return encode(*given, **options)
            finally:
                self.encoder += time.perf_counter() - began

        return timed


def _timed(engine: Engine) -> tuple[Engine, TimedBackend]:
    """The same engine, with its model on a stopwatch."""
    watch = TimedBackend(engine.backend)
    return replace(engine, backend=watch), watch
