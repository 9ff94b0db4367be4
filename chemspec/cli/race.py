"""The commands `race` and `replay`: decode a query with and without drafts, and show both runs side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.io import tables
from chemspec.replay import timing
from chemspec.replay.timing import LEGEND, Kind, Lane
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

if TYPE_CHECKING:
    from chemspec.engine.engine import Engine

ROUNDS = 5  # timed runs per decoding mode
COLUMNS = {
    "": "{name}",
    "passes": "{passes}",
    "tokens a pass": "{tokens_per_pass:.1f}",
    "ms": "{median_ms:.1f}",
    "its quartiles": "{q1_ms:.1f} to {q3_ms:.1f}",
}


@dataclass(frozen=True, kw_only=True)
class RaceQuery(opt.Runtime):
    """A query, and the model and the drafter that decode it.

    Attributes:
        smiles SMILES: SMILES of one molecule, or of several joined by dots.
        task -t: task; default: retro for one molecule, forward for several.
    """

    smiles: str
    task: str = ""
    model: str = ""
    drafter: str = opt.DEFAULT.drafter

    def run(self, n: int = 1) -> tuple[Engine, list[list[DecodeResult]]]:
        """Return the model and the results of both decoding modes; exits with a message if there is no answer."""
        task = self.task or ("" if self.model else "forward" if "." in self.smiles else "retro")
        engine = self.load(task, self.model)
        settings = opt.build_decode_settings("auto", n, exact=True, drafter=self.drafter)
        rounds = alternate_runs(engine, self.smiles, settings)
        for result in (results[0] for results in rounds if results[0].status != "ok"):
            show.answers.quiet = False
            show.print_result(result)
            raise typer.Exit(1)
        return engine, rounds


@command("race", "Answers")
def race_decoders(*, query: RaceQuery, n: int = 1) -> dict[str, Any]:
    """Race standard against speculative decoding; both runs are replayed in the terminal.

    Options:
        n -n: number of predictions: 1 decodes greedily, more use beam search.
    """
    engine, rounds = query.run(n)
    if show.answers.is_terminal and not show.answers.quiet:
        show.print_sentence(f"{engine.task}: {query.smiles}")
        replay_lanes(show.answers, timing.median_lanes(rounds))
        show.print_line("")
    statistics = timing.race_statistics(rounds)
    show.print_table(tables.terminal(COLUMNS, statistics))
    show.print_sentence(timing.race_conclusion(rounds))
    return {
        "model": engine.name,
        "query": query.smiles,
        "identical": timing.compare_answers(rounds),
        "lanes": statistics,
    }


@command("replay", "Answers")
def write_replay(*, query: RaceQuery, out: Path, dark: bool = False) -> None:
    """Write a replay of a race as an animated picture: standard and speculative greedy decoding in ten seconds.

    Options:
        out -o: picture: .svg, .webp or .gif.
        dark: colours for a dark page.
    """
    from chemspec.replay import picture

    if out.suffix.lower() not in picture.FORMATS:
        raise ValueError(f"{out}: the ending must be one of {', '.join(picture.FORMATS)}")
    opt.check_parent_folders(out)
    engine, rounds = query.run()
    result, conclusion = rounds[0][0], timing.race_conclusion(rounds)
    drawn = picture.build_picture(
        timing.median_lanes(rounds),
        title=f"{engine.name}: standard and speculative decoding",
        query=result.smiles,
        answer=result.hypotheses[0].canonical,
        conclusion=conclusion,
        dark=dark,
    )
    picture.write_replay(drawn, out)
    show.print_note(f"{out}: {conclusion}")


def alternate_runs(engine: Engine, query: str, settings: DecodeSettings) -> list[list[DecodeResult]]:
    """Decode a query alternately with and without drafts, after a warm-up run of each; returns both lists."""
    modes = replace(settings, drafter="none"), settings
    rounds: list[list[DecodeResult]] = [[], []]
    for turn in range(ROUNDS + 1):
        for index in (0, 1) if turn % 2 else (1, 0):
            result = engine.predict(query, modes[index])
            if turn or result.status != "ok":
                rounds[index].append(result)
    return rounds


# --- lanes in the terminal -----------------------------------------------------------------------

STYLES: dict[Kind, str] = {"own": "bold underline", "copied": "green", "drafted": "cyan"}
SLOWDOWNS = (1, 2, 5, 10, 20, 50, 100, 200)
MAX_REPLAY_MS = 2000.0
FRAME_SECONDS = 1 / 30


def slowdown_factor(lanes: Sequence[Lane]) -> int:
    """Return the factor by which a replay is slowed down, so that the slowest lane takes at most two seconds."""
    slowest = max(lane.milliseconds for lane in lanes)
    return max((factor for factor in SLOWDOWNS if factor * slowest <= MAX_REPLAY_MS), default=1)


def replay_lanes(console: Console, lanes: Sequence[Lane]) -> None:
    """Replay lanes, which fill with tokens pass by pass, on a terminal; the last frame stays on the screen."""
    factor, last = slowdown_factor(lanes), max(lane.milliseconds for lane in lanes)
    with Live(console=console, auto_refresh=False) as live:
        began, now = time.perf_counter(), 0.0
        while now < last:
            live.update(render_frame(lanes, now, console.width, factor), refresh=True)
            time.sleep(FRAME_SECONDS)
            now = 1e3 * (time.perf_counter() - began) / factor
        live.update(render_frame(lanes, last, console.width, factor), refresh=True)


def render_frame(lanes: Sequence[Lane], now: float, width: int, factor: int) -> Group:
    """Render the lanes at `now` milliseconds, in a fixed number of lines of at most `width` columns."""
    legend = Text("replayed as it was" if factor == 1 else f"{factor} times slower than it was")
    legend.append("; a space parts two passes")
    for kind in STYLES:
        if any(token.kind == kind for lane in lanes for token in lane.tokens):
            legend.append("; ").append(LEGEND[kind], STYLES[kind])
    return Group(*(part for lane in lanes for part in (*_render_lane(lane, now, width), Text())), legend)


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
