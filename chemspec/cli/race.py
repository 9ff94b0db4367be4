"""The commands `race` and `replay`: decode a query with and without drafts, and show both runs side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.io import tables
from chemspec.replay import terminal, timing
from chemspec.types import DecodeResult

if TYPE_CHECKING:
    from chemspec.engine.engine import Engine

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
        """Return the model and the runs of both decoding modes; exits with a message if there is no answer."""
        task = self.task or ("" if self.model else "forward" if "." in self.smiles else "retro")
        engine = self.load(task, self.model)
        settings = opt.build_decode_settings("auto", n, exact=True, drafter=self.drafter)
        modes = timing.standard_of(settings), settings
        rounds = timing.alternate_runs(modes, lambda setting, _: engine.predict(self.smiles, setting))
        for result in (runs[0] for runs in rounds if runs[0].status != "ok"):
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
        terminal.play_lanes(show.answers, timing.median_lanes(rounds))
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
