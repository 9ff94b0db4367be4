"""Decode the same queries under several settings, and compare each with its baseline: the loop of every benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from chemspec.engine.engine import Engine
from chemspec.metrics import SpeedNumbers, Spread, speed_numbers
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

BOOTSTRAP_DRAWS = 1000
Answers = Sequence[Sequence[tuple[Any, ...]]]  # per query the tokens, or token ids, of each answer, best first


class Setting(NamedTuple):
    """Named decoding settings; `baseline` names an earlier setting to compare with, if any.

    `paper` and `paper_accepted` are a paper's figures, with the table: speed-up and acceptance rate.
    """

    name: str
    settings: DecodeSettings
    baseline: str = ""
    paper: str = ""
    paper_accepted: str = ""


@dataclass(frozen=True)
class Row:
    """Measurement of one setting."""

    setting: Setting
    answers: Answers  # in the order of the queries
    results: tuple[DecodeResult, ...] = ()  # if decoded by chemspec
    seconds: tuple[float, ...] = ()  # of every batch, if timed; means over rounds
    sizes: tuple[int, ...] = ()  # of every batch
    peak_mb: float = 0.0  # memory of the process; 0 if not measured
    facts: Mapping[str, Any] = field(default_factory=dict)  # further columns of the report
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
    def counted(self) -> SpeedNumbers:
        """Passes, tokens and nodes of all results."""
        return speed_numbers([result.trace for result in self.results])

    def pick(self, *names: str) -> dict[str, Any]:
        """Return settings and counts by name."""
        settings, counted = self.setting.settings, self.counted
        return {name: getattr(settings, name) if hasattr(settings, name) else getattr(counted, name) for name in names}

    def same(self, *, first: bool = False) -> list[bool]:
        """Return for each query in common with the baseline whether all answers (or the first ones) are equal."""
        most = 1 if first else None
        pairs = zip(self.answers, (self.baseline or self).answers, strict=False)
        return [ours[:most] == theirs[:most] for ours, theirs in pairs]


Progress = Callable[[int, int], None]
Measure = Callable[[Engine, Sequence[str], Setting], Sequence[Row]]


def decode_untimed(engine: Engine, queries: Sequence[str], setting: Setting) -> Sequence[Row]:
    """Decode the queries without timing."""
    return [Row.of(setting, engine.predict(queries, setting.settings))]


def sweep_settings(
    engine: Engine,
    queries: Sequence[str],
    settings: Sequence[Setting],
    *,
    measure: Measure = decode_untimed,
    progress: Progress = lambda *_: None,
) -> list[Row]:
    """Decode queries under every setting; returns the rows in their order, each with its baseline.

    A baseline comes before the settings compared with it. `measure` returns the rows of one setting, several if
    programs race; `progress` is called with the number of finished settings and the total.
    """
    rows: list[Row] = []
    first: dict[str, Row] = {}
    for done, setting in enumerate(settings, 1):
        measured = measure(engine, queries, setting)
        if setting.baseline in first:
            measured = [replace(row, baseline=first[setting.baseline]) for row in measured]
        first.setdefault(setting.name, measured[0])
        rows += measured
        progress(done, len(settings))
    return rows


def paired_ratio(slow: Sequence[float], fast: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of paired ratios, and its 95 % bootstrap interval."""
    ratios = np.array([before / after for before, after in zip(slow, fast, strict=False)])
    drawn = np.random.default_rng(0).choice(ratios, (BOOTSTRAP_DRAWS, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(np.median(ratios)), float(low), float(high)
