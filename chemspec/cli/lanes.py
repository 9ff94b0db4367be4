"""Draw recorded runs as lanes of a terminal that fill with tokens, pass by pass in the order of their traces."""

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
SLOWED = (1, 2, 5, 10, 20, 50, 100, 200)
LONGEST = 2000.0  # ms of a replay
FRAME = 1 / 30  # seconds


class Token(NamedTuple):
    """A piece of an answer, which kind it is, and the number from 0 of the pass that wrote it."""

    text: str
    kind: Kind
    written_by: int


@dataclass(frozen=True)
class Lane:
    """A recorded run.

    Attributes:
        name: of the way to decode.
        tokens: of the first answer, the end of the sequence as "end".
        ends: of every pass, ms from the start of decoding.
    """

    name: str
    tokens: tuple[Token, ...]
    ends: tuple[float, ...]

    @classmethod
    def of(cls, name: str, result: DecodeResult) -> Lane:
        """Return the lane of an answered query; which tokens were drafted is known of greedy decoding only."""
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
        """When the last pass ended."""
        return self.ends[-1]


def slowed(lanes: Sequence[Lane]) -> int:
    """Return how many times slower than it was a race is replayed, so that the slowest lane takes two seconds."""
    slowest = max(lane.milliseconds for lane in lanes)
    return max((factor for factor in SLOWED if factor * slowest <= LONGEST), default=1)


def replay(
    console: Console,
    lanes: Sequence[Lane],
    *,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Let the lanes fill, on a terminal; what stands there at the end stays."""
    factor, last = slowed(lanes), max(lane.milliseconds for lane in lanes)
    with Live(console=console, auto_refresh=False) as live:
        began, now = clock(), 0.0
        while now < last:
            live.update(frame(lanes, now, console.width, factor), refresh=True)
            sleep(FRAME)
            now = 1e3 * (clock() - began) / factor
        live.update(frame(lanes, last, console.width, factor), refresh=True)


def frame(lanes: Sequence[Lane], now: float, width: int, factor: int) -> Group:
    """Return what is seen `now` ms after the start, in lines of `width` columns at most, always as many."""
    kinds = [kind for kind in STYLES if any(token.kind == kind for lane in lanes for token in lane.tokens)]
    legend = Text("replayed as it was" if factor == 1 else f"{factor} times slower than it was")
    legend.append("; a space parts two passes")
    for kind in kinds:
        legend.append("; ").append(LEGEND[kind], STYLES[kind])
    drawn = [part for lane in lanes for part in (*_lane(lane, now, width), Text())]
    return Group(*drawn, legend)


def _lane(lane: Lane, now: float, width: int) -> list[Text]:
    """Return a heading and the lines of tokens, blank where nothing is written yet."""
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
