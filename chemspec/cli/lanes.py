"""Replay recorded runs in the terminal as lanes that fill with tokens, pass by pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from chemspec.replay.lanes import LEGEND, Kind, Lane

STYLES: dict[Kind, str] = {"own": "bold underline", "copied": "green", "drafted": "cyan"}
SLOWDOWNS = (1, 2, 5, 10, 20, 50, 100, 200)
MAX_REPLAY_MS = 2000.0
FRAME_SECONDS = 1 / 30


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
