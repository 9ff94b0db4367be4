"""The command `replay`: write a race of standard and speculative decoding as an animated picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from chemspec.cli import options as opt
from chemspec.cli import race, show
from chemspec.cli.base import app


@app.command(name="replay", rich_help_panel="Answers")
def write_replay(
    smiles: Annotated[str, typer.Argument(help="SMILES of one molecule, or of several joined by dots.")],
    out: Annotated[Path, opt.help_option("Picture: .svg, .webp or .gif.", "--out", "-o")],
    task: Annotated[
        str, opt.help_option("Task; default: retro for one molecule, forward for several.", "--task", "-t")
    ] = "",
    model: opt.ModelOption = "",
    drafter: opt.DrafterOption = opt.DEFAULT.drafter,
    dark: Annotated[bool, opt.help_option("Colours for a dark page.", "--dark")] = False,
    dtype: opt.DtypeOption = "auto",
    device: opt.DeviceOption = "auto",
    threads: opt.ThreadsOption = 0,
    runtime: opt.RuntimeOption = "auto",
) -> None:
    """Write a replay of standard and speculative greedy decoding as an animated picture of ten seconds."""
    from chemspec.replay import picture

    if out.suffix.lower() not in picture.FORMATS:
        raise ValueError(f"{out}: the ending must be one of {', '.join(picture.FORMATS)}")
    opt.check_parent_folders(out)
    loading: dict[str, Any] = {"dtype": dtype, "device": device, "threads": threads, "runtime": runtime}
    engine = opt.load_engine(task or ("" if model else "forward" if "." in smiles else "retro"), model, **loading)
    settings = opt.build_decode_settings("auto", 1, exact=True, drafter=drafter)
    rounds = race.alternate_runs(engine, smiles, settings)
    for result in (results[0] for results in rounds if results[0].status != "ok"):
        show.print_result(result)
        raise typer.Exit(1)
    result = rounds[0][0]
    drawn = picture.build_picture(
        race.median_lanes(rounds),
        title=f"{engine.name}: standard and speculative decoding",
        query=result.smiles,
        answer=result.hypotheses[0].canonical,
        conclusion=race.race_conclusion(rounds),
        dark=dark,
    )
    picture.write_replay(drawn, out)
    show.print_note(f"{out}: {race.race_conclusion(rounds)}")
