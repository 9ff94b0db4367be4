"""Programs that the benchmark times: each decodes queries to token ids, and is built once per task."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from chemspec.engine.engine import Engine
from chemspec.model.runner import Backend, Runner
from chemspec.settings import DecodeSettings
from chemspec.types import Trace
from chemspec.version import __version__

Answer = tuple[int, ...]  # token ids without bos and eos
Answers = list[list[Answer]]  # per query, best first


@dataclass
class Program:
    """One program, in one precision, with one drafter."""

    name: str
    version: str
    runtime: str
    dtype: str
    device: str
    answer: Callable[[Sequence[str], DecodeSettings], Answers]  # decodes a batch of queries
    drafter: str = "none"
    label: str = ""  # name of the drafter in tables, if different
    prepare: Callable[[Sequence[str], DecodeSettings], None] = lambda *_: None  # untimed preparation of a batch
    batches: bool = True  # whether it can decode several queries at once
    beams: bool = True  # whether it supports beam search
    most: dict[str, int] = field(default_factory=dict)  # queries that suffice to measure its speed, by decoder
    note: str = ""  # remark on its rows
    pause: float = 0.0  # seconds to wait after each answer, until its spinning threads sleep
    watch: TimedBackend | None = None  # time in the encoder, if available
    traces: list[Trace] = field(default_factory=list)  # of all answers, if available


def chemspec_programs(engine: Engine, drafters: Sequence[str]) -> list[Program]:
    """Return programs for an engine, one per drafter; the first decodes without drafts and is the baseline."""
    return [chemspec_program(*time_encoder(engine), drafter) for drafter in dict.fromkeys(("none", *drafters))]


def chemspec_program(timed: Engine, watch: TimedBackend, drafter: str, **options: Any) -> Program:
    """Return a program for an engine with a timed encoder; `options` are further settings."""
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
    """A backend that measures the time spent in the encoder; that of decoder passes is in the traces."""

    backend: Backend
    encoder: float = 0.0

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int, **options: Any) -> Runner:
        """Encode the sources (timed), also those that join the session later; `options` are the backend's."""
        runner: Any = self._timed(self.backend.open)(sources, top_k=top_k, **options)
        if runner.can_join:
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


def time_encoder(engine: Engine) -> tuple[Engine, TimedBackend]:
    """Return the engine with a timed encoder, and the timer."""
    watch = TimedBackend(engine.backend)
    return replace(engine, backend=watch), watch
