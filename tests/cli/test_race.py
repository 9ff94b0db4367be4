"""The race: lanes fill in the order of the recorded passes, hold the answer, and what is said of them is true."""

from __future__ import annotations

import io
import re
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import command_line
import pytest
from command_line import last
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from rich.console import Console
from rich.text import Text
from small import QUERIES

import chemspec
from chemspec.cli import race
from chemspec.engine.engine import Engine
from chemspec.replay import terminal, timing
from chemspec.replay.timing import Lane, Token
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

pytestmark = pytest.mark.usefixtures("models")
QUERY = QUERIES[3]


@pytest.fixture(scope="module")
def rounds(home: Path) -> list[list[DecodeResult]]:
    how = DecodeSettings(decoder="greedy", n=1, drafter="windows", max_len=30)
    return race.alternate_runs(Engine.load(home / "retro", threads=1), QUERY, how)


def shown(drawn: list[Lane], now: float, width: int) -> list[str]:
    """Lines of a frame without what they are folded to."""
    return [part.plain for part in terminal.render_frame(drawn, now, width, 1).renderables if isinstance(part, Text)]


def written(text: str) -> str:
    return text.replace(" ", "")


lane_strategy = some.lists(some.tuples(some.sampled_from(["C", "[C@@H]", "Cl", "("]), some.booleans()), min_size=1)


@given(drawn=lane_strategy, width=some.integers(20, 90), now=some.floats(0, 40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_frame_shows_the_passes_that_had_ended_and_always_fits(
    drawn: list[tuple[str, bool]], width: int, now: float
) -> None:
    tokens, last = [], 0
    for at, (text, new) in enumerate(drawn):
        last += new and at > 0
        tokens.append(Token(text, "copied" if new else "own", last))
    lane = Lane("x", tuple(tokens), tuple(float(end) for end in range(1, last + 2)))
    head, *lines, _, _legend = shown([lane], now, width)
    assert max(map(len, lines)) <= width
    assert written("".join(lines)) == "".join(token.text for token in tokens if token.written_by + 1 <= now)
    assert f" {min(int(now), last + 1)} of {last + 1} passes" in head
    assert len(shown([lane], 0, width)) == len(shown([lane], 99, width)) == len(lines) + 3
    assert [len(line) for line in shown([lane], 99, width)[1:-2]] == list(map(len, lines))


def test_at_the_end_both_lanes_hold_the_answer(rounds: list[list[DecodeResult]]) -> None:
    standard, drafted = timing.median_lanes(rounds)
    answer = rounds[0][0].hypotheses[0]
    expected = [*answer.tokens, *["end"] * (answer.ended == "eos")]
    for lane in (standard, drafted):
        assert [token.text for token in lane.tokens] == expected
    assert {token.kind for token in standard.tokens} == {"own"}
    assert [token.written_by for token in standard.tokens] == list(range(len(expected)))
    accepted = sum(step.accepted for step in rounds[1][0].trace.passes)
    assert sum(token.kind != "own" for token in drafted.tokens) == accepted


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_replay_shows_frame_after_frame_and_always_the_cursor_again(
    rounds: list[list[DecodeResult]], monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    drawn, now = timing.median_lanes(rounds), [0.0]

    def sleep(seconds: float) -> None:
        if interrupted:
            raise KeyboardInterrupt
        now[0] += seconds

    console = Console(width=60, file=io.StringIO(), force_terminal=True, color_system=None, legacy_windows=False)
    monkeypatch.setattr(terminal, "time", SimpleNamespace(perf_counter=lambda: now[0], sleep=sleep))
    with pytest.raises(KeyboardInterrupt) if interrupted else nullcontext():
        terminal.play_lanes(console, drawn)
    out = console.file.getvalue()  # type: ignore[attr-defined]
    assert out.endswith("\x1b[?25h")
    seen = [int(count) for count in re.findall(r"standard +(\d+) of", out)]
    assert seen == sorted(seen) and (seen[0], seen[-1]) == (0, 0 if interrupted else len(drawn[0].ends))
    if not interrupted:
        assert terminal.PLAY_SECONDS <= now[0] < terminal.PLAY_SECONDS + 2 * terminal.FRAME_SECONDS


def test_identical_is_found_out_and_not_claimed(rounds: list[list[DecodeResult]]) -> None:
    assert timing.compare_answers(rounds) == "yes, to the last bit"
    (first, *others), drafted = rounds
    answer = first.hypotheses[0]
    scores = (answer.token_log_probs[0] + 1e-12, *answer.token_log_probs[1:])
    rounded = replace(first, hypotheses=(replace(answer, token_log_probs=scores),))
    assert timing.compare_answers([[rounded, *others], drafted]) == "yes, with scores that differ in their last digits"
    other = replace(first, hypotheses=(replace(answer, tokens=(*answer.tokens, "C")),))
    assert timing.compare_answers([[*others, other], drafted]) == "no"


def call(*words: str) -> Any:
    return command_line.call("race", *words, "--threads", 1)


def test_in_a_pipe_there_is_the_table_and_a_sentence() -> None:
    done = call(QUERY)
    assert done.exit_code == 0 and "\x1b" not in done.stdout
    head, standard, speculative, verdict = done.stdout.rstrip("\n").split("\n")
    assert head.split()[:4] == ["passes", "tokens", "a", "pass"]
    assert (standard.split()[0], speculative.split()[0]) == timing.NAMES
    assert verdict.startswith("identical: yes, to the last bit; ")
    assert f" instead of {standard.split()[1]}; " in verdict


@pytest.mark.parametrize(
    ("words", "model"), [(("CCO",), "retro"), (("CC.O",), "forward"), (("CC.O", "-t", "retro", "-n", "3"), "retro")]
)
def test_a_flask_is_asked_what_forms_and_a_molecule_what_from(words: tuple[str, ...], model: str) -> None:
    done = last(call(*words, "--json"))
    assert done["model"] == model
    assert [(lane["name"], lane["runs"]) for lane in done["lanes"]] == [("standard", 5), ("speculative", 5)]
    assert done["lanes"][0]["passes"] == done["lanes"][0]["tokens"]


def test_a_query_that_cannot_be_read_is_named() -> None:
    done = call("CC(")
    assert done.exit_code == 1
    assert "invalid" in done.stdout and "never closed" in done.stdout


def test_the_race_needs_none_of_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("streamlit", "pandas", "altair"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("chemspec.ui")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(chemspec, "ui", raising=False)  # else the package would keep the one imported here
    assert call("CCO").exit_code == 0
