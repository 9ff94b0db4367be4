"""Answer the same queries under several settings and compare each with its baseline: the loop of every benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from chemspec.engine.engine import Engine
from chemspec.metrics import SpeedNumbers, Spread, speed_numbers
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

DRAWS = 1000  # of the bootstrap
Answers = Sequence[Sequence[tuple[Any, ...]]]  # of each query the tokens, or their ids, of each answer, best first


class Setting(NamedTuple):
    """How to decode, under a name; `baseline` names an earlier setting to compare with, if any.

    `paper` and `paper_accepted` are what a paper reports where one does, with its table: the speed-up, and how much of
    the drafts is accepted.
    """

    name: str
    settings: DecodeSettings
    baseline: str = ""
    paper: str = ""
    paper_accepted: str = ""


@dataclass(frozen=True)
class Row:
    """What one setting gave.

    Attributes:
        setting: how the queries were answered.
        answers: in the order in which the queries came.
        results: the same in full, where chemspec gave them.
        seconds, sizes: of every batch, where time was taken; seconds are means over rounds.
        peak_mb: the most memory the process held; 0 where it was not looked at.
        facts: what else a report says about the row.
        baseline: the row to compare with; None for one that others are compared with.
    """

    setting: Setting
    answers: Answers
    results: tuple[DecodeResult, ...] = ()
    seconds: tuple[float, ...] = ()
    sizes: tuple[int, ...] = ()
    peak_mb: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)
    baseline: Row | None = None

    @classmethod
    def of(cls, setting: Setting, results: Sequence[DecodeResult], **more: Any) -> Row:
        """Return a row of chemspec's results; `more` are other attributes."""
        answers = [[answer.tokens for answer in result.hypotheses] for result in results]
        return cls(setting, answers, tuple(results), **more)

    @property
    def per_query(self) -> list[float]:
        """Milliseconds a query, one figure a batch."""
        return [1e3 * spent / size for spent, size in zip(self.seconds, self.sizes, strict=True)]

    @property
    def times(self) -> Spread:
        """Median and quartiles of milliseconds a query."""
        return Spread.from_values(self.per_query)

    @property
    def counted(self) -> SpeedNumbers:
        """Passes, tokens and nodes of all results."""
        return speed_numbers([result.trace for result in self.results])

    def pick(self, *names: str) -> dict[str, Any]:
        """Return some of the settings and of the counts, by name."""
        settings, counted = self.setting.settings, self.counted
        return {name: getattr(settings, name) if hasattr(settings, name) else getattr(counted, name) for name in names}

    def same(self, *, first: bool = False) -> list[bool]:
        """Say of each query that the baseline answered too whether all answers (or the first ones) are equal."""
        most = 1 if first else None
        pairs = zip(self.answers, (self.baseline or self).answers, strict=False)
        return [mine[:most] == theirs[:most] for mine, theirs in pairs]


Progress = Callable[[int, int], None]
Measure = Callable[[Engine, Sequence[str], Setting], Sequence[Row]]


def count(engine: Engine, queries: Sequence[str], setting: Setting) -> Sequence[Row]:
    """Answer the queries without looking at a clock."""
    return [Row.of(setting, engine.predict(queries, setting.settings))]


def sweep(
    engine: Engine,
    queries: Sequence[str],
    settings: Sequence[Setting],
    *,
    measure: Measure = count,
    progress: Progress = lambda *_: None,
) -> list[Row]:
    """Answer queries under every setting.

    Args:
        engine: that answers, or whose model other programs run.
        queries: the same for all settings.
        settings: in the order in which they run, a baseline before what is compared with it.
        measure: gives the rows of one setting; several where programs race.
        progress: is told how many settings of how many are done.

    Returns:
        Rows in the order of the settings, each with its baseline.
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
    """Return the median of paired ratios, and its 95 % interval by drawing the pairs anew."""
    ratios = np.array([one / other for one, other in zip(slow, fast, strict=False)])
    drawn = np.random.default_rng(0).choice(ratios, (DRAWS, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(np.median(ratios)), float(low), float(high)
