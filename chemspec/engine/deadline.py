"""Predictions within a deadline: the greedy answer at once, then the widest exact beam for which the time is enough.

The time of a beam is estimated from the measured cost curve of a forward pass, the length of the greedy answer and the
pace of the searches so far, which includes the load of the machine. A beam that is not finished at the deadline is
abandoned between two forward passes: at most one pass late. The result is the list of the last complete search, the
same to the last bit as without a deadline, and never a part of a search; if there is none, the result says so.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import log2
from typing import Protocol

from chemspec.engine import distinct
from chemspec.engine.queries import PreparedQuery
from chemspec.settings import DecodeSettings, Task, check_positive
from chemspec.types import Cost, DecodeResult, Pass, Within

Clock = Callable[[], float]
# Forward passes of a beam without drafts, as a multiple of the tokens of the greedy answer: about the 90th percentile
# of 40 built-in queries, 1.3 for a width of 2 and 2.0 for 50. A beam goes on until no live hypothesis can overtake.
PASSES, PASSES_PER_DOUBLING = 1.15, 0.15
NOT_READY = "no answer was complete within {:g} s; give more time"


class StreamingEngine(Protocol):
    """The part of an engine that a deadline needs."""

    @property
    def task(self) -> Task: ...  # noqa: D102

    def cost(self) -> Cost: ...  # noqa: D102

    def prepare(self, text: str) -> PreparedQuery: ...  # noqa: D102

    def stream(self, query: PreparedQuery, settings: DecodeSettings) -> Iterator[Pass | DecodeResult]: ...  # noqa: D102


@dataclass(frozen=True)
class Pace:
    """Speed of the searches so far."""

    tokens: int  # length of the greedy answer, end-of-sequence included
    setup: float  # seconds before the first forward pass of a search: mainly the encoder
    factor: float  # seconds per second of the cost curve; load, and what drafts save, included
    writing: float  # seconds to write one prediction of a list

    def beam_seconds(self, width: int, cost: Cost) -> float:
        """Return the estimated seconds of a beam of this width."""
        passes = self.tokens * (PASSES + PASSES_PER_DOUBLING * log2(width))
        return self.setup + self.factor * passes * cost(width) + self.writing * width


@dataclass
class _TimedSearch:
    """A search that ran pass by pass; one that was abandoned at the deadline has no result."""

    times: list[float]  # times of its beginning, of every pass, and of its result
    passes: list[Pass] = field(default_factory=list)
    result: DecodeResult | None = None

    def run(
        self, events: Iterable[Pass | DecodeResult], end: float, clock: Clock, before_pass: Callable[[], None]
    ) -> None:
        """Run until the search is complete or the deadline `end` is over."""
        for event in events:
            self.times.append(clock())
            if isinstance(event, DecodeResult):
                self.result = event
                return
            self.passes.append(event)
            if self.times[-1] >= end:
                return
            before_pass()

    def measure_pace(self, cost: Cost) -> Pace:
        """Return the pace of a complete greedy search."""
        began, *pass_ends, written = self.times
        first, *later = [cost(item.computed) for item in self.passes]
        factor = (pass_ends[-1] - pass_ends[0]) / sum(later) if later else 1.0
        setup = max(0.0, pass_ends[0] - began - factor * first)
        return Pace(sum(item.emitted for item in self.passes), setup, factor, written - pass_ends[-1])


def check_settings(settings: DecodeSettings, seconds: float) -> None:
    """Raise ValueError for settings that do not go with a deadline."""
    check_positive("within", seconds)
    if settings.decoder not in ("greedy", "beam"):
        raise ValueError(f"a deadline is for greedy decoding and beams, not for {settings.decoder}")
    if settings.beta > 1:
        raise ValueError("a deadline is for exact decoding; leave beta 1")
    if settings.augment > 1:
        raise ValueError("a deadline does not go with several SMILES variants; leave augment 1")


def lists_within(
    engine: StreamingEngine,
    query: PreparedQuery,
    settings: DecodeSettings,
    *,
    began: float,
    seconds: float,
    clock: Clock = time.perf_counter,
    before_pass: Callable[[], None] = lambda: None,
) -> Iterator[DecodeResult]:
    """Yield the list of every search that is complete before the deadline, each wider than the one before.

    The last one says whether a search was abandoned. Without a complete search it is a result without predictions. The
    settings are those of the widest list; the seconds count from the clock time `began`. `before_pass` is called
    between two forward passes, and its exceptions end the run.
    """
    end, cost = began + seconds, engine.cost()
    passes = 0

    def run(search: DecodeSettings) -> _TimedSearch:
        nonlocal passes
        timed = _TimedSearch([clock()])
        if timed.times[0] < end:
            timed.run(engine.stream(query, search), end, clock, before_pass)
        passes += len(timed.passes)
        return timed

    def mark(result: DecodeResult, width: int, abandoned: int = 0) -> DecodeResult:
        chosen = distinct.select_result([result], query.smiles, engine.task, settings)
        return replace(chosen, within=Within(seconds, width, abandoned, passes))

    plain = replace(settings, distinct=False, guide="")
    search = run(replace(plain, decoder="greedy", n=1, length_penalty=0.0))
    if search.result is None:
        yield not_ready(query, seconds, passes)
        return
    result, width = search.result, 1
    yield mark(result, width)
    if result.status != "ok" or settings.decoder == "greedy":
        return
    pace = search.measure_pace(cost)
    while wider := _widest_affordable(settings, width, pace, cost, end - clock()):
        estimate = pace.beam_seconds(wider, cost)
        search = run(replace(plain, n=wider))
        if search.result is None:
            yield mark(result, width, abandoned=wider)
            return
        result, width = search.result, wider
        answer = mark(result, width)
        yield answer
        if result.status != "ok" or (width >= settings.n and len(answer.hypotheses) >= settings.n):
            return
        pace = replace(pace, factor=pace.factor * (search.times[-1] - search.times[0]) / estimate)


def _widest_affordable(settings: DecodeSettings, width: int, pace: Pace, cost: Cost, left: float) -> int | None:
    """Return the largest beam width above `width` that is estimated to fit into the time left."""
    # It is at most `n`, and above only for a list of distinct predictions whose beam of `n` has too few.
    wider = distinct.search_widths(settings) if settings.distinct else ()
    widths = range(2, settings.n + 1) if width < settings.n else wider
    return max((size for size in widths if size > width and pace.beam_seconds(size, cost) <= left), default=None)


def predict_within(
    engine: StreamingEngine, text: str, seconds: float, settings: DecodeSettings, *, clock: Clock = time.perf_counter
) -> DecodeResult:
    """Predict for one query within some seconds, which begin with this call and are kept to one forward pass.

    The list is that of the widest complete search, `result.within.width` wide; the status is "failed" if not even the
    greedy answer was complete in time. The cost curve is measured before, once per machine. The settings are those of
    the widest list; ValueError is raised for those that do not go with a deadline.
    """
    check_settings(settings, seconds)
    engine.cost()
    began = clock()
    query = engine.prepare(text)
    if query.refusal is not None:
        return query.refusal  # type: ignore[no-any-return]
    *_, last = lists_within(engine, query, settings, began=began, seconds=seconds, clock=clock)
    return last


def not_ready(query: PreparedQuery, seconds: float, passes: int = 0) -> DecodeResult:
    """Return the result of a query without a complete answer at the deadline, after this number of passes."""
    within = Within(seconds, 0, abandoned=1, passes=passes)
    return DecodeResult(query.text, "failed", NOT_READY.format(seconds), smiles=query.smiles, within=within)
