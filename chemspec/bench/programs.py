"""What the benchmark times: a program answers queries with token ids; it is made once per task."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from chemspec.engine.engine import Engine
from chemspec.model.session import Backend, Runner
from chemspec.settings import DecodeSettings
from chemspec.types import Trace
from chemspec.version import __version__

Answer = tuple[int, ...]  # token ids without bos and eos
Answers = list[list[Answer]]  # of each query, best first


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
    return [ours(*on_a_stopwatch(engine), drafter) for drafter in dict.fromkeys(("none", *drafters))]


def ours(timed: Engine, watch: TimedBackend, drafter: str, **options: Any) -> Program:
    """Return an engine on a stopwatch as a program; `options` are settings besides those asked for."""
    ids = {token: index for index, token in enumerate(timed.tokenizer.tokens)}
    traces: list[Trace] = []

    def answer(queries: Sequence[str], settings: DecodeSettings) -> Answers:
        results = timed.predict(queries, settings, **options)
        traces.extend(result.trace for result in results)
        return [[tuple(ids[token] for token in item.tokens) for item in result.hypotheses] for result in results]

    runs = timed.runtime, timed.dtype, timed.device
    return Program("chemspec", __version__, *runs, answer, drafter, watch=watch, traces=traces)


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


def on_a_stopwatch(engine: Engine) -> tuple[Engine, TimedBackend]:
    """The same engine, with its model on a stopwatch."""
    watch = TimedBackend(engine.backend)
    return replace(engine, backend=watch), watch
