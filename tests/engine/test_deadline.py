"""Deadlines: at most one forward pass late, and every list is that of the same search without a deadline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from helpers.small import BAD, QUERIES, tiny_folder

from chemspec.engine import deadline, distinct
from chemspec.engine.deadline import predict_within
from chemspec.engine.engine import Engine, PreparedQuery
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Pass

SETTINGS = DecodeSettings(n=6, max_len=24)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine.load(tiny_folder(tmp_path_factory.mktemp("models") / "retro", seed=4), threads=1)


@dataclass
class Metered:
    """An engine with a clock on which every forward pass takes some seconds, and nothing else takes any."""

    engine: Engine
    seconds_of_pass: Callable[[float], float] = lambda _: 1.0
    slowdown: float = 1.0
    now: float = 0.0
    passes: int = 0
    begun_late: int = 0
    longest: float = 0.0
    end: float = math.inf

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def cost(self) -> Callable[[float], float]:
        return self.seconds_of_pass

    def clock(self) -> float:
        return self.now

    def stream(self, query: PreparedQuery, settings: DecodeSettings) -> Iterator[Pass | DecodeResult]:
        for event in self.engine.stream(query, settings):
            if isinstance(event, Pass):
                self.passes += 1
                self.begun_late += self.now >= self.end
                spent = self.slowdown * self.seconds_of_pass(event.computed)
                self.now, self.longest = self.now + spent, max(self.longest, spent)
            yield event

    def predict_within(self, query: str, seconds: float, settings: DecodeSettings = SETTINGS) -> DecodeResult:
        self.end = self.now + seconds
        return predict_within(self, query, seconds, settings, clock=self.clock)  # type: ignore[arg-type]


def beam_alone(engine: Engine, query: str, width: int, settings: DecodeSettings = SETTINGS) -> DecodeResult:
    plain = replace(settings, n=width, distinct=False)
    result = engine.predict(query, plain if width > 1 else replace(plain, decoder="greedy"))
    return distinct.select_result([result], result.smiles, engine.task, settings)


@pytest.mark.parametrize("drafter", ["auto", "none"])
@pytest.mark.parametrize("slowdown", [1.0, 3.0])
@pytest.mark.parametrize("is_distinct", [False, True])
def test_never_late_by_more_than_one_pass_and_every_list_is_that_of_its_beam(
    tiny: Engine, drafter: str, slowdown: float, is_distinct: bool
) -> None:
    settings = replace(SETTINGS, drafter=drafter, distinct=is_distinct)
    widths = set()
    for query in QUERIES[:2]:
        for seconds in (slowdown * step for step in (0.5, *range(3, 100, 8), 200.5, 1000.5)):
            metered = Metered(tiny, lambda nodes: 0.5 + nodes / 4, slowdown)
            result = metered.predict_within(query, seconds, settings)
            assert result.within is not None
            assert metered.begun_late == 0
            assert metered.now - seconds < metered.longest
            assert result.within.passes == metered.passes
            widths.add(result.within.width)
            if result.within.width == 0:
                assert (result.status, result.hypotheses) == ("failed", ())
                assert f"no answer was complete within {seconds:g} s" in result.message
                continue
            alone = beam_alone(tiny, query, result.within.width, settings)
            assert result.hypotheses == alone.hypotheses
            assert (result.status, result.notes, result.distinct) == (alone.status, alone.notes, alone.distinct)
    assert 0 in widths
    assert max(widths) >= SETTINGS.n
    if drafter == "none":  # how much is drafted depends on the machine, and so does the time of a beam on this clock
        assert 1 in widths
        assert widths & {2, 3, 4, 5}


def test_a_beam_that_comes_too_late_is_abandoned_and_the_list_before_is_returned(
    tiny: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline.Pace, "beam_seconds", lambda *_: 0.0)  # as if every beam were free
    greedy = len(tiny.predict(QUERIES[1], decoder="greedy", n=1, max_len=24).trace.passes)
    metered = Metered(tiny)
    result = metered.predict_within(QUERIES[1], greedy + 4.0)
    assert result.within is not None
    assert (result.within.width, result.within.abandoned, result.within.passes) == (1, 6, greedy + 4)
    assert result.hypotheses == beam_alone(tiny, QUERIES[1], 1).hypotheses


def test_a_beam_that_would_not_fit_is_not_begun(tiny: Engine) -> None:
    greedy = len(tiny.predict(QUERIES[1], decoder="greedy", n=1, max_len=24).trace.passes)
    metered = Metered(tiny)
    result = metered.predict_within(QUERIES[1], greedy + 2.0)
    assert result.within is not None
    assert (result.within.width, result.within.abandoned, metered.passes) == (1, 0, greedy)


def test_time_before_the_first_pass_counts(tiny: Engine) -> None:
    metered = Metered(tiny, now=5.0)
    lists = deadline.lists_within(
        metered,  # type: ignore[arg-type]
        tiny.prepare("CCO"),
        SETTINGS,
        began=0.0,
        seconds=4.0,
        clock=metered.clock,
    )
    assert [result.status for result in lists] == ["failed"]
    assert metered.passes == 0


def test_lists_of_the_library_are_marked_and_bad_queries_harm_no_others(tiny: Engine) -> None:
    seen: list[int] = []
    good, bad = tiny.predict(["CCO", "CC("], n=3, max_len=12, distinct=False, within=60.0, progress=seen.append)
    assert good.within is not None
    assert (good.within.width, good.within.abandoned) == (3, 0)
    assert good.hypotheses == tiny.predict("CCO", n=3, max_len=12, distinct=False).hypotheses
    assert (bad.status, bad.within) == (BAD["CC("], None)
    assert seen == [1, 2]
    assert tiny.predict("CCO", within=60.0, decoder="greedy", n=1, max_len=12).within.width == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("settings", "seconds", "word"),
    [
        ({}, 0.0, "above 0"),
        *(({}, seconds, "within is .* above 0 and finite") for seconds in (math.nan, math.inf, "1")),
        ({"decoder": "sample"}, 1.0, "sample"),
        ({"augment": 3}, 1.0, "augment"),
        ({"decoder": "greedy", "n": 1, "beta": 2}, 1.0, "beta"),
    ],
)
def test_what_does_not_go_with_a_deadline_is_refused(
    tiny: Engine, settings: dict[str, Any], seconds: float, word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        tiny.predict("CCO", within=seconds, **settings)


def test_the_pace_is_learnt_from_every_search(tiny: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which beams take twice as long as the curve says gets narrower ones afterwards."""

    @dataclass
    class SlowBeams(Metered):
        of_beams: float = 1.0

        def stream(self, query: PreparedQuery, settings: DecodeSettings) -> Iterator[Pass | DecodeResult]:
            self.slowdown = 1.0 if settings.decoder == "greedy" else self.of_beams
            yield from super().stream(query, settings)

    def factors(of_beams: float) -> list[float]:
        paces: list[float] = []
        widths = iter((2, 3, None))
        monkeypatch.setattr(deadline, "_widest_affordable", lambda *args: paces.append(args[2].factor) or next(widths))
        SlowBeams(tiny, of_beams=of_beams).predict_within("CCO", 1e9)
        return paces

    usual, slow = factors(1.0), factors(2.0)
    assert len(usual) == len(slow) == 3 and slow[0] == usual[0]
    assert slow[1] == pytest.approx(2 * usual[1]) and slow[2] == pytest.approx(2 * usual[2])


def test_a_query_without_an_answer_in_time_counts_one_list_that_was_given_up(tiny: Engine) -> None:
    within = deadline.not_ready(tiny.prepare(QUERIES[0]), 0.5, passes=7).within
    assert within and (within.seconds, within.width, within.abandoned, within.passes) == (0.5, 0, 1, 7)
