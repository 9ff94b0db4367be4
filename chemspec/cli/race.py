"""The command `race`: decode a query with and without drafts, and show both runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.io import tables
from chemspec.replay import terminal, timing
from chemspec.settings import DecodeSettings
from chemspec.terminal import console
from chemspec.terminal.documented_options import FieldsOf
from chemspec.types import DecodeResult

if TYPE_CHECKING:  # slow imports
    from chemspec.engine.engine import Engine

COLUMNS = {
    "": "{name}",
    "passes": "{passes}",
    "tokens a pass": "{tokens_per_pass:.1f}",
    "ms": "{median_ms:.1f}",
    "its quartiles": "{q1_ms:.1f} to {q3_ms:.1f}",
}


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The race as an animated picture of six seconds, or explained pass by pass as a page.

    Attributes:
        out -o: animated picture of the race (.svg, .webp or .gif), or a page that explains the answer (.html).
        dark: with --out: colours for a dark page; an .html file follows the reader's.
    """

    out: Path | None = None
    dark: bool = False

    def __post_init__(self) -> None:
        from chemspec.replay import picture

        if self.dark and not self.out:
            raise ValueError("--dark is for a picture; give one with --out")
        endings = (*picture.FORMATS, ".html")
        if self.out and self.out.suffix.lower() not in endings:
            raise ValueError(f"{self.out}: the ending must be one of {', '.join(endings)}")
        opt.check_parent_folders(self.out)


@command("race", "Answers")
def race_decoders(
    smiles: str,
    task: str = "",
    model: str = "",
    n: int = 1,
    *,
    drafting: Annotated[dict[str, Any], FieldsOf(DecodeSettings, ["drafter", "drafting"])],
    runtime: opt.Runtime,
    replay: Replay,
) -> dict[str, Any]:
    """Race standard against speculative decoding; both runs are replayed in the terminal.

    Options:
        smiles SMILES: SMILES of one molecule, or of several joined by dots.
        task -t: task; default: retro for one molecule, forward for several.
        n -n: number of predictions: 1 decodes greedily, more use beam search.
    """
    if replay.out and n > 1:
        raise ValueError("the picture shows greedy decoding; leave out -n")
    engine = runtime.load(task or ("" if model else "forward" if "." in smiles else "retro"), model)
    settings = opt.build_decode_settings("auto", n, exact=True, **drafting)
    modes = timing.standard_of(settings), settings
    rounds = timing.alternate_runs(modes, lambda setting, _: engine.predict(smiles, setting))
    for result in (runs[0] for runs in rounds if runs[0].status != "ok"):
        console.answers.quiet = False
        show.print_result(result)
        raise typer.Exit(1)
    for text in rounds[0][0].notes:
        console.print_note(f"note: {text}")
    lanes = timing.median_lanes(rounds)
    if console.answers.is_terminal and not console.answers.quiet:
        console.print_sentence(f"{engine.task}: {smiles}")
        terminal.play_lanes(console.answers, lanes)
        console.print_line("")
    statistics, conclusion = timing.race_statistics(rounds), timing.race_conclusion(rounds, terminal=True)
    if replay.out:  # first, as a reader such as `head` may close the pipe
        replay.out.write_bytes(draw_race(engine, rounds[0][0], lanes, conclusion, replay))
        console.print_note(str(replay.out))
    console.print_table(tables.terminal(COLUMNS, statistics))
    console.print_sentence(conclusion)
    return {"model": engine.name, "query": smiles, "identical": timing.compare_answers(rounds), "lanes": statistics}


def draw_race(
    engine: Engine, result: DecodeResult, lanes: Sequence[timing.Lane], conclusion: str, replay: Replay
) -> bytes:
    """Return the file of a race: an animated picture, or a page that explains the answer pass by pass."""
    from chemspec.replay import explained_page, explanation, picture

    kind = str(replay.out).lower().rpartition(".")[2]
    if kind == "html":
        from chemspec.engine.forks import score_drafts

        (explained,) = engine.predict([result.query], explanation.SETTINGS)
        choices = score_drafts(engine, result.query, explained.hypotheses[0], explanation.drafts_of(explained))
        page = explained_page.explanation_page(explanation.explain_answer(explained, str(engine.task), choices=choices))
        return page.encode()
    title = f"{engine.name}: standard and speculative decoding"
    answer = result.hypotheses[0].canonical
    drawn = picture.build_picture(
        lanes, title=title, query=result.smiles, answer=answer, conclusion=conclusion, dark=replay.dark
    )
    return picture.replay_bytes(drawn, kind)
