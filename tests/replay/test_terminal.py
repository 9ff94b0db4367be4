"""Lanes on a terminal fill in the order of the recorded passes, fit its width, and hold the answer in the end."""

from __future__ import annotations

import io
import re
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.console import Console
from rich.text import Text

from chemspec.replay import terminal
from chemspec.replay.timing import Lane
from chemspec.replay.trace_view import TokenView


def shown(drawn: list[Lane], now: float, width: int) -> list[str]:
    """Lines of a frame without what they are folded to."""
    return [part.plain for part in terminal.render_frame(drawn, now, width, 1).renderables if isinstance(part, Text)]


def written(text: str) -> str:
    return text.replace(" ", "")


lane_strategy = some.lists(some.tuples(some.sampled_from(["C", "[C@@H]", "Cl", "("]), some.booleans()), min_size=1)


@given(drawn=lane_strategy, width=some.integers(20, 90), now=some.floats(0, 40))
def test_a_frame_shows_the_passes_that_had_ended_and_always_fits(
    drawn: list[tuple[str, bool]], width: int, now: float
) -> None:
    tokens, last = [], 1
    for at, (text, new) in enumerate(drawn):
        last += new and at > 0
        tokens.append(TokenView(text, "copied" if new else "own", last))
    lane = Lane("x", tuple(tokens), tuple(float(end) for end in range(1, last + 1)))
    head, *lines, _, _legend = shown([lane], now, width)
    assert max(map(len, lines)) <= width
    assert written("".join(lines)) == "".join(token.text for token in tokens if token.pass_number <= now)
    assert f" {min(int(now), last)} of {last} passes" in head
    assert len(shown([lane], 0, width)) == len(shown([lane], 99, width)) == len(lines) + 3
    assert [len(line) for line in shown([lane], 99, width)[1:-2]] == list(map(len, lines))


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("slowest", [24.0, 3000.0])
def test_lanes_are_played_frame_after_frame_and_the_cursor_is_shown_again(
    monkeypatch: pytest.MonkeyPatch, interrupted: bool, slowest: float
) -> None:
    """Two seconds, unless the run took longer."""
    lanes = [
        Lane("standard", (TokenView("C", "own", 1), TokenView("O", "own", 2)), (1.0, slowest)),
        Lane("x", (), (2.0,)),
    ]
    now = [0.0]

    def sleep(seconds: float) -> None:
        if interrupted:
            raise KeyboardInterrupt
        now[0] += seconds

    console = Console(width=60, file=io.StringIO(), force_terminal=True, color_system=None, legacy_windows=False)
    monkeypatch.setattr(terminal, "time", SimpleNamespace(perf_counter=lambda: now[0], sleep=sleep))
    with pytest.raises(KeyboardInterrupt) if interrupted else nullcontext():
        terminal.play_lanes(console, lanes)
    out = console.file.getvalue()  # type: ignore[attr-defined]
    assert out.endswith("\x1b[?25h")
    seen = [int(count) for count in re.findall(r"standard +(\d+) of", out)]
    assert seen == sorted(seen) and (seen[0], seen[-1]) == (0, 0 if interrupted else 2)
    if not interrupted:
        assert now[0] == pytest.approx(max(2.0, slowest / 1e3), abs=2 * terminal.FRAME_SECONDS)
