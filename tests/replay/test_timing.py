"""Tables from timed runs."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chemspec.metrics import Spread
from chemspec.replay import timing
from chemspec.replay.timing import Lane
from chemspec.settings import DecodeSettings
from chemspec.types import AcceptedSpan, DecodeResult, Hypothesis, Pass, Trace

GREEDY = DecodeSettings(decoder="greedy", n=1, drafter="none")
AUTO = DecodeSettings(decoder="greedy", n=1, drafter="auto")
BEAM = DecodeSettings(decoder="beam", n=2, drafter="none")
SBS = DecodeSettings(decoder="sbs", n=2, drafter="windows")


def one_pass(emitted: int, accepted: int = 0, start: int = 0, *, nodes: int = 1, seconds: float = 0.01) -> Pass:
    spans = (AcceptedSpan(start, accepted, "copy"),) if accepted else ()
    return Pass(1, nodes, nodes - 1, emitted, accepted, 0.5, 1, seconds / 10, seconds * 9 / 10, spans)


def answer(tokens: str, log_prob: float = -0.5, ended: str = "eos") -> Hypothesis:
    steps = tuple(0.0 for _ in range(len(tokens) + (ended == "eos")))
    return Hypothesis(tokens, tokens, True, tuple(tokens), steps, log_prob, 0.6, 0.6, ended)  # type: ignore[arg-type]


def result(settings: DecodeSettings, passes: list[Pass], *texts: str, seconds: float = 0.0) -> DecodeResult:
    spent = seconds or sum(item.draft_seconds + item.model_seconds for item in passes)
    exactness = {"exact": settings.exact, "exactness": "exact to the last bit" if settings.exact else "relaxed"}
    trace = Trace(("C",), {**asdict(settings), **exactness}, tuple(passes), round(spent, 9))
    found = tuple(answer(text, -float(rank)) for rank, text in enumerate(texts or ("CCO",)))
    return DecodeResult("C", "ok", "", found, trace)


STANDARD = result(GREEDY, [one_pass(1) for _ in range(4)], seconds=0.05)
DRAFTED = result(AUTO, [one_pass(1), one_pass(3, 2, 1, nodes=5)], seconds=0.025)


def test_median_and_quartiles_stay_within_what_was_measured() -> None:
    assert Spread.from_values([3.0]) == (3, 3, 3, 1)
    assert Spread.from_values([1.0, 2.0]) == (1.5, 1.25, 1.75, 2)
    assert Spread.from_values([5, 1, 3, 2, 4]) == (3, 2, 4, 5)
    with pytest.raises(ValueError):
        Spread.from_values([])


@given(st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=11))
def test_the_typical_run_is_no_slower_than_the_median(seconds: list[float]) -> None:
    runs = [result(GREEDY, [one_pass(4)], seconds=one) for one in seconds]
    found = timing.median_run(runs)
    assert found in runs
    assert found.trace.seconds <= Spread.from_values(run.trace.seconds for run in runs).median + 1e-6


@pytest.mark.parametrize(
    ("run", "written_by", "drafted"),
    [
        (STANDARD, [0, 1, 2, 3], []),  # C C O end
        (DRAFTED, [0, 1, 1, 1], [1, 2]),
        (result(BEAM, [one_pass(1)] * 6, "CCO", "CCCCO"), [0, 1, 2, 3], []),  # it goes on after its first answer
        (result(BEAM, [one_pass(1), one_pass(3, 2, 1)]), [0, 1, 1, 1], []),  # copied tokens are known for greedy only
        (result(GREEDY, [one_pass(1)] * 2), [0, 1, 1, 1], []),  # never more passes than there are
        (result(SBS, [one_pass(1)] * 2, "CCCCC"), [0, 0, 0, 1, 1, 1], []),  # spread over its passes
    ],
)
def test_a_lane_tells_which_pass_wrote_a_token_and_which_were_drafted(
    run: DecodeResult, written_by: list[int], drafted: list[int]
) -> None:
    tokens = Lane.from_result("x", run).tokens
    assert [token.text for token in tokens] == [*run.hypotheses[0].tokens, "end"]
    assert [token.pass_number - 1 for token in tokens] == written_by
    assert [place for place, token in enumerate(tokens) if token.origin == "ahead"] == drafted
    assert {tokens[place].origin for place in set(range(len(tokens))) - {*drafted}} == {"own"}


def test_a_timeline_ends_with_the_run() -> None:
    assert Lane.from_result("x", STANDARD).ends == pytest.approx((12.5, 25, 37.5, 50))  # four passes of 10 ms in 50 ms


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(1e-4, 0.1)), min_size=1, max_size=20))
def test_a_lane_delivers_all_tokens_in_order_by_its_end(passes: list[tuple[int, float]]) -> None:
    run = result(AUTO, [one_pass(emitted, seconds=spent) for emitted, spent in passes])
    lane = Lane.from_result("x", run)
    writers = [token.pass_number - 1 for token in lane.tokens]
    assert len(writers) == 4 and writers == sorted(writers) and writers[-1] < len(lane.ends)
    assert lane.milliseconds == pytest.approx(1e3 * run.trace.seconds, rel=1e-6)


def test_a_search_is_compared_with_the_same_search_without_drafts() -> None:
    sized = DecodeSettings(decoder="beam", n=2, drafter="copy", draft_length=8, draft_count=2)
    assert timing.standard_of(sized) == BEAM


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (GREEDY, "Greedy, without drafts"),
        (AUTO, "Greedy, with drafts (auto)"),
        (SBS, "SBS 2 (relaxed), with drafts (windows)"),
    ],
)
def test_names_tell_settings_apart(settings: DecodeSettings, words: str) -> None:
    assert timing.setting_name(settings) == words


def test_a_race_is_told_in_numbers_and_in_a_sentence() -> None:
    slow = result(GREEDY, [one_pass(1) for _ in range(4)], seconds=0.07)
    rounds = [[STANDARD, slow, STANDARD], [DRAFTED] * 3]
    standard, drafted = timing.race_statistics(rounds)
    assert (standard["median_ms"], drafted["median_ms"]) == pytest.approx((50, 25))
    assert (drafted["passes"], drafted["tokens"], drafted["tokens_per_pass"]) == (2, 4, 2)
    told = timing.race_conclusion(rounds, timed=False)
    assert told == "identical: yes, to the last bit; 2 passes instead of 4"
    assert timing.race_conclusion(rounds) == f"{told}; 2.00 times faster (medians of 3 warm runs by turns)"
    equal = timing.race_conclusion([[slow], [STANDARD]])
    assert equal == "identical: yes, to the last bit; 4 passes with and without drafts", "equal work, so no speed-up"


def test_runs_that_differ_in_passes_are_told_by_the_one_that_is_shown() -> None:
    """Drafts are planned by the times of passes, so they may."""
    runs = [result(AUTO, [one_pass(1) for _ in range(count)], seconds=count / 100) for count in (4, 2, 3)]
    rounds = [[result(GREEDY, [one_pass(1) for _ in range(5)])] * 3, runs]
    (_, drafted), (_, lane) = timing.race_statistics(rounds), timing.median_lanes(rounds)
    assert drafted["passes"] == len(lane.ends) == 3
    assert "3 passes instead of 5" in timing.race_conclusion(rounds)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [(1, "no drafts: copy proposed none, or on this machine they would not pay"), (3, "drafts saved no pass")],
)
def test_a_race_without_gain_says_why(nodes: int, reason: str) -> None:
    idle = result(replace(AUTO, drafter="copy"), [one_pass(1, nodes=nodes) for _ in range(4)])
    assert timing.race_conclusion([[STANDARD], [idle]]).endswith(f"; 4 passes; {reason}")


def test_the_same_answers_in_another_order_are_not_the_same() -> None:
    one, two = result(BEAM, [one_pass(1)], "CC", "CO"), result(BEAM, [one_pass(1)], "CO", "CC")
    assert timing.compare_answers([[one], [one]]) != "no" == timing.compare_answers([[one], [one, two]])


def test_speed_ups_are_told_with_care() -> None:
    assert timing.format_speedup(2.314) == "2.31 times faster"
    assert timing.format_speedup(1.04) == timing.format_speedup(0.96) == "about as fast"
    assert timing.format_speedup(0.5) == "2.00 times slower"
