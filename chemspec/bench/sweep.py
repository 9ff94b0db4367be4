"""Decode the same queries under several settings, and compare each with its baseline: the loop of every benchmark."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from pathlib import Path
from random import Random
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

import numpy as np

from chemspec.engine.engine import Engine
from chemspec.metrics import SpeedNumbers, Spread, speed_numbers
from chemspec.plugins import DECODERS
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Progress, ignore

BOOTSTRAP_DRAWS = 1000
COLUMNS = tomllib.loads(Path(__file__).with_name("columns.toml").read_text(encoding="utf-8"))  # columns of tables
Answers = Sequence[Sequence[tuple[Any, ...]]]  # tokens, or token ids, of each answer of a query, best first


class Setting(NamedTuple):
    """Named decoding settings; `baseline` names an earlier setting to compare with, if any.

    `facts` are anything else to report of it, such as the figures of a paper.
    """

    name: str
    settings: DecodeSettings
    baseline: str = ""
    facts: Mapping[str, str] = {}


@dataclass(frozen=True)
class Row:
    """Measurement of one setting."""

    setting: Setting
    answers: Answers  # answers in the order of the queries
    results: tuple[DecodeResult, ...] = ()  # results of chemspec alone
    seconds: tuple[float, ...] = ()  # seconds of every batch, if timed; means over rounds
    sizes: tuple[int, ...] = ()  # size of every batch
    attempts: tuple[float, ...] = ()  # milliseconds per query of every round, if there were several
    baseline: Row | None = None  # row to compare with

    @classmethod
    def of(cls, setting: Setting, results: Sequence[DecodeResult], **more: Any) -> Row:
        """Return a row for results of chemspec; `more` are other attributes."""
        answers = [[answer.tokens for answer in result.hypotheses] for result in results]
        return cls(setting, answers, tuple(results), **more)

    @property
    def per_query(self) -> list[float]:
        """Milliseconds per query, for every batch."""
        return [1e3 * spent / size for spent, size in zip(self.seconds, self.sizes, strict=True)]

    @property
    def times(self) -> Spread:
        """Median and quartiles of the milliseconds per query."""
        return Spread.from_values(self.per_query)

    @property
    def passes_per_batch(self) -> float:
        """Forward passes of a batch, which are those of its slowest query; mean over batches."""
        passes = iter([len(result.trace.passes) for result in self.results])
        return fmean(max(islice(passes, size)) for size in self.sizes)

    @property
    def counted(self) -> SpeedNumbers:
        """Passes, tokens and nodes of all results."""
        return speed_numbers([result.trace for result in self.results])

    def pick(self, *names: str) -> dict[str, Any]:
        """Return settings and counts by name."""
        settings, counted = self.setting.settings, self.counted
        return {name: getattr(settings, name) if hasattr(settings, name) else getattr(counted, name) for name in names}

    def report(self) -> dict[str, Any]:
        """Return settings, times if there are any, agreement with the baseline if there is one, and counts."""
        settings, counted = self.setting.settings, self.counted
        report = {
            "decoder": settings.decoder,
            "n": settings.n,
            "drafter": settings.drafter,
            "batch": settings.batch_size,
            "exact": settings.exact,
            "queries": len(self.answers),
            "same_list": None,
            "same_first": None,
        }
        if self.seconds:
            report |= self._timing()
            report["passes_per_batch"] = self.passes_per_batch if self.results else None
        if self.baseline and DECODERS[settings.decoder].drafts != "sampled":  # their samples differ
            report |= {"same_list": fmean(self.same()), "same_first": fmean(self.same(first=True))}
        names = ("passes", "passes_per_query", "nodes_per_pass", "tokens_per_pass", "acceptance_rate", "draft_hit_rate")
        report |= self.pick(*names, "acceptance_length", "alpha", "draft_calls")
        queries, passes = max(1, counted.queries), max(1, counted.passes)
        return report | {
            "drafted_per_query": counted.drafted / queries,
            "calls_per_query": counted.draft_calls / queries,
            "calls_per_pass": counted.draft_calls / passes,
            "draft_ms_per_pass": 1e3 * counted.draft_seconds / passes,
        }

    def _timing(self) -> dict[str, Any]:
        spread, total = self.times, sum(self.seconds)
        tokens = sum(len(answers[0]) + 1 for answers in self.answers if answers)
        # Paired by batch, so that long queries and load affect both sides.
        ratio = paired_ratio(self.baseline.per_query, self.per_query) if self.baseline else (None, None, None)
        spread_of_attempts = (fmean(self.attempts), stdev(self.attempts)) if len(self.attempts) > 1 else (None, None)
        return {
            **dict(zip(("attempts_ms", "attempts_sd"), spread_of_attempts, strict=True)),
            "timings": len(self.seconds),
            "median_ms": spread.median,
            "q1_ms": spread.low,
            "q3_ms": spread.high,
            "mean_ms": 1e3 * total / sum(self.sizes),
            "latency_ms": 1e3 * median(self.seconds),
            "queries_per_second": sum(self.sizes) / total,
            "tokens_per_second": tokens / total,  # tokens of the first answers, including eos
            **dict(zip(("speedup", "speedup_low", "speedup_high"), ratio, strict=True)),
        }

    def same(self, *, first: bool = False) -> list[bool]:
        """Return for each query in common with the baseline whether all answers (or the first ones) are equal."""
        most = 1 if first else None
        pairs = zip(self.answers, (self.baseline or self).answers, strict=False)
        return [ours[:most] == theirs[:most] for ours, theirs in pairs]


def sweep_settings(
    engine: Engine, queries: Sequence[str], settings: Sequence[Setting], *, progress: Progress = ignore
) -> list[Row]:
    """Decode queries under every setting, without timing; returns a row for each with its baseline, an earlier setting.

    `progress` is called with the number of finished settings and the total.
    """
    rows: dict[str, Row] = {}
    for done, setting in enumerate(settings, 1):
        row = Row.of(setting, engine.predict(queries, setting.settings), baseline=rows.get(setting.baseline))
        rows[setting.name] = row
        progress(done, len(settings))
    return list(rows.values())


def race_settings(
    entries: Sequence[tuple[Engine, Setting]], queries: Sequence[str], *, rounds: int = 1, seconds: float = inf
) -> list[Row]:
    """Decode queries in batches, alternating between settings, after an untimed batch of the longest queries.

    Queries are batched by length to minimise padding; batches come in random order, so that the first ones are
    representative. The time of a batch is the mean over `rounds`; no batch of a setting is started after `seconds`.
    Returns one row per entry; all have one batch size, and the first is the baseline.
    """
    size = entries[0][1].settings.batch_size
    by_length = sorted(queries, key=len)
    ordered = by_length if size > 1 else list(queries)
    batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    if size > 1:
        Random(0).shuffle(batches)
    for engine, setting in entries:
        engine.predict(by_length[-size:], setting.settings)
    spent: list[list[float]] = [[] for _ in entries]
    by_round = [[0.0] * rounds for _ in entries]  # seconds
    results: list[list[DecodeResult]] = [[] for _ in entries]
    for number, batch in enumerate(batches):
        times: dict[int, list[float]] = {which: [] for which, past in enumerate(spent) if sum(past) <= seconds}
        for turn in range(rounds * len(entries)):
            which = (number + turn) % len(entries)
            if which not in times:
                continue
            engine, setting = entries[which]
            began = time.perf_counter()
            answered = engine.predict(batch, setting.settings)
            times[which].append(time.perf_counter() - began)
            if len(times[which]) == 1:
                results[which] += answered
        for which, taken in times.items():
            spent[which].append(fmean(taken))
            by_round[which] = [whole + part for whole, part in zip(by_round[which], taken, strict=True)]
    rows = []
    for which, (_, setting) in enumerate(entries):
        sizes = tuple(map(len, batches[: len(spent[which])]))
        attempts = tuple(1e3 * seconds / sum(sizes) for seconds in by_round[which]) if rounds > 1 else ()
        rows.append(Row.of(setting, results[which], seconds=tuple(spent[which]), sizes=sizes, attempts=attempts))
    return [rows[0], *(replace(row, baseline=rows[0]) for row in rows[1:])]


def paired_ratio(slow: Sequence[float], fast: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of paired ratios, and its 95 % bootstrap interval."""
    ratios = np.array([before / after for before, after in zip(slow, fast, strict=False)])
    drawn = np.random.default_rng(0).choice(ratios, (BOOTSTRAP_DRAWS, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(np.median(ratios)), float(low), float(high)
