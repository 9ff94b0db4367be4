"""Replay recorded runs in the terminal as lanes that fill with tokens, pass by pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from chemspec.types import DecodeResult
from chemspec.ui.speed import timing

Kind = Literal["own", "copied", "drafted"]
STYLES: dict[Kind, str] = {"own": "bold underline", "copied": "green", "drafted": "cyan"}
LEGEND: dict[Kind, str] = {
    "own": "the model's own token",
    "copied": "copied from the query",
    "drafted": "drafted otherwise",
}
SLOWDOWNS = (1, 2, 5, 10, 20, 50, 100, 200)
MAX_REPLAY_MS = 2000.0
FRAME_SECONDS = 1 / 30


class Token(NamedTuple):
    """The text of a token, its origin, and the number (from 0) of the pass that emitted it."""

    text: str
    kind: Kind
    written_by: int


@dataclass(frozen=True)
class Lane:
    """A recorded run.

    Attributes:
        name: name of the decoding mode.
        tokens: tokens of the first prediction; the end of the sequence is "end".
        ends: end of every pass in milliseconds from the start of decoding.
    """

    name: str
    tokens: tuple[Token, ...]
    ends: tuple[float, ...]

    @classmethod
    def from_result(cls, name: str, result: DecodeResult) -> Lane:
        """Build the lane of a prediction; drafted tokens are known for greedy decoding only."""
        kinds: dict[int, Kind] = {}
        if result.trace.settings.get("decoder") == "greedy":
            for span in (span for step in result.trace.passes for span in step.spans):
                kind: Kind = "drafted" if span.span is None else "copied"
                kinds |= dict.fromkeys(range(span.start, span.start + span.length), kind)
        first = result.hypotheses[0]
        texts = [*first.tokens, *["end"] * (first.ended == "eos")]
        written_by = timing.token_passes(result)
        tokens = (Token(text, kinds.get(at, "own"), written_by[at]) for at, text in enumerate(texts))
        return cls(name, tuple(tokens), tuple(bar.end for bar in timing.pass_timeline(result.trace)))

    @property
    def milliseconds(self) -> float:
        """End of the last pass."""
        return self.ends[-1]


def slowdown_factor(lanes: Sequence[Lane]) -> int:
    """Return the factor by which a replay is slowed down, so that the slowest lane takes at most two seconds."""
    slowest = max(lane.milliseconds for lane in lanes)
    return max((factor for factor in SLOWDOWNS if factor * slowest <= MAX_REPLAY_MS), default=1)


def replay_lanes(
    console: Console,
    lanes: Sequence[Lane],
    *,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Replay lanes on a terminal; the last frame stays on the screen."""
    factor, last = slowdown_factor(lanes), max(lane.milliseconds for lane in lanes)
    with Live(console=console, auto_refresh=False) as live:
        began, now = clock(), 0.0
        while now < last:
            live.update(render_frame(lanes, now, console.width, factor), refresh=True)
            sleep(FRAME_SECONDS)
            now = 1e3 * (clock() - began) / factor
        live.update(render_frame(lanes, last, console.width, factor), refresh=True)


def render_frame(lanes: Sequence[Lane], now: float, width: int, factor: int) -> Group:
    """Render the lanes at `now` milliseconds, in a fixed number of lines of at most `width` columns."""
    kinds = [kind for kind in STYLES if any(token.kind == kind for lane in lanes for token in lane.tokens)]
    legend = Text("replayed as it was" if factor == 1 else f"{factor} times slower than it was")
    legend.append("; a space parts two passes")
    for kind in kinds:
        legend.append("; ").append(LEGEND[kind], STYLES[kind])
    drawn = [part for lane in lanes for part in (*_render_lane(lane, now, width), Text())]
    return Group(*drawn, legend)


def _render_lane(lane: Lane, now: float, width: int) -> list[Text]:
    """Render a heading and the lines of tokens, blank where no token is emitted yet."""
    done = sum(end <= now for end in lane.ends)
    head = Text(f"{lane.name:<12}", "bold").append(f" {done:>3} of {len(lane.ends)} passes", "not bold")
    head.append(f"  {min(now, lane.milliseconds):6.1f} ms", "not bold")
    lines, before = [Text()], 0
    for token in lane.tokens:
        gap = " " * (token.written_by != before and len(lines[-1]) > 0)
        if len(lines[-1]) + len(gap) + len(token.text) > width:
            lines.append(Text())
            gap = ""
        written = token.written_by < done
        lines[-1].append(gap).append(token.text if written else " " * len(token.text), STYLES[token.kind] * written)
        before = token.written_by
    return [head, *lines]
