"""Play lanes on a terminal: each fills with tokens pass by pass; the picture of a replay is in `picture`."""

import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from chemspec.replay.timing import LEGEND, Lane

STYLES = {"own": "bold underline", "copied": "green", "ahead": "cyan"}
PLAY_SECONDS = 2.0  # shortest time of the slowest lane
FRAME_SECONDS = 1 / 30


def play_lanes(console: Console, lanes: Sequence[Lane]) -> None:
    """Play lanes, slowed down if they are faster than `PLAY_SECONDS`; the last frame stays on the screen."""
    last = max(lane.milliseconds for lane in lanes)
    slowdown = max(1.0, 1e3 * PLAY_SECONDS / last)
    with Live(console=console, auto_refresh=False) as live:
        began, now = time.perf_counter(), 0.0
        while now < last:
            live.update(render_frame(lanes, now, console.width, slowdown), refresh=True)
            time.sleep(FRAME_SECONDS)
            now = 1e3 * (time.perf_counter() - began) / slowdown
        live.update(render_frame(lanes, last, console.width, slowdown), refresh=True)


def render_frame(lanes: Sequence[Lane], now: float, width: int, slowdown: float) -> Group:
    """Render the lanes at `now` milliseconds, in a fixed number of lines of at most `width` columns."""
    legend = Text("replayed as it was" if slowdown == 1 else f"{slowdown:.1f} times slower than it was")
    legend.append("; a space parts two passes")
    for origin, text in LEGEND.items():
        if any(token.origin == origin for lane in lanes for token in lane.tokens):
            legend.append("; ").append(text, STYLES[origin])
    return Group(*(part for lane in lanes for part in (*_render_lane(lane, now, width), Text())), legend)


def _render_lane(lane: Lane, now: float, width: int) -> list[Text]:
    """Render a heading and the lines of tokens, blank where no token is emitted yet."""
    done = sum(end <= now for end in lane.ends)
    head = Text(f"{lane.name:<12}", "bold").append(f" {done:>3} of {len(lane.ends)} passes", "not bold")
    head.append(f"  {min(now, lane.milliseconds):6.1f} ms", "not bold")
    lines, before = [Text()], 1
    for token in lane.tokens:
        gap = " " * (token.pass_number != before and len(lines[-1]) > 0)
        if len(lines[-1]) + len(gap) + len(token.text) > width:
            lines.append(Text())
            gap = ""
        written = token.pass_number <= done
        lines[-1].append(gap).append(token.text if written else " " * len(token.text), STYLES[token.origin] * written)
        before = token.pass_number
    return [head, *lines]
