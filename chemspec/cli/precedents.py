"""Patent reactions with the same change: the commands `precedents build` and `precedents find`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app
from chemspec.system.files import OTHERS_BITS

if TYPE_CHECKING:
    from chemspec.precedents import Found

group = typer.Typer(no_args_is_help=True)
app.add_typer(group, name="precedents", help="Patent reactions that make the same change.", rich_help_panel="Answers")
FILES = ("retro_train.csv.gz", "retro_extra_train.csv.gz", "forward_stereo_train.csv.gz")


@group.command(name="build")
def build_precedents(
    source: opt.SourceOption = None,
    files: Annotated[
        list[str] | None,
        opt.option(
            "CSV in the --source folder, repeatable; first those that separate reactants from reagents best.", "--file"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        opt.option("Index file to write; default: the one that chemspec reads, in ~/.chemspec.", "--out", "-o"),
    ] = None,
    guess: Annotated[
        bool,
        opt.option("Guess atom maps of rows without them; five times slower for these rows.", "--guess/--no-guess"),
    ] = True,
    reagents_from: Annotated[
        list[str] | None,
        opt.option(
            "CSV in the --source folder, repeatable, that only adds reagents and patents to the reactions of --file."
        ),
    ] = None,
    bits: Annotated[int, opt.option("Bits of a product's fingerprint; fewer make a smaller index.")] = 512,
    workers: opt.ProcessesOption = 2,
    limit: opt.RowLimitOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Build an index of precedents from reaction CSVs; resumable by the same command."""
    from chemspec.precedents.build import build_index
    from chemspec.precedents.default import user_index_path

    folder = opt.require_data_folder(source)
    chosen = [folder / name for name in files or FILES]
    if not files:
        chosen = [file for file in chosen if file.is_file()]
        if not chosen:
            raise ValueError(f"{folder} has none of {', '.join(FILES)}; name its files with --file")
    target = out or user_index_path()
    if out is None and not os.environ.get("CHEMSPEC_PRECEDENTS"):  # in the user's own folder: private
        os.umask(OTHERS_BITS)
    target.parent.mkdir(parents=True, exist_ok=True)
    with show.progress_bar("rows") as report:
        summary = build_index(
            chosen,
            target,
            reagents_from=[folder / name for name in reagents_from or ()],
            guess=guess,
            bits=bits,
            limit=limit,
            workers=workers,
            progress=report,
        )
    if as_json:
        show.print_json({"file": str(target), **vars(summary)})
        return
    wide, close = summary.changes
    show.print_line(f"{target}: {summary.reactions} reactions, {summary.size / 1e6:.1f} MB")
    show.print_line(
        f"  of {summary.rows} rows; {summary.repeated} repeat a reaction, {summary.left_out} reactions cannot be used"
    )
    show.print_line(f"  with reagents {summary.with_reagents}, with a patent's number {summary.with_patent}")
    show.print_line(f"  different changes {wide}, {close} with what is next to them")


@group.command(name="find")
def find_precedents(
    reaction: Annotated[str, typer.Argument(help="Reaction SMILES: reactants>>product, agents allowed between the >.")],
    n: Annotated[int, opt.option("Number of precedents and of conditions listed.", "--n", "-n")] = 3,
    index: Annotated[Path | None, opt.option("Index file; default: the installed one.")] = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Find patent reactions with the same change: their number, the nearest ones, and their conditions.

    Exit code 1 if there is none.
    """
    from chemspec import chem
    from chemspec.precedents import BUILD_COMMAND, Precedents, installed

    if reaction.count(">") != 2:
        raise ValueError(f"{reaction} is no reaction; write reactants>>product")
    reactants, agents, product = reaction.split(">")
    left = ".".join(filter(None, (reactants, agents)))
    for side in (left, product):
        if fault := chem.explain(side):
            raise ValueError(f"{side or 'an empty side'} cannot be read: {fault}")
    opened = Precedents.open(index) if index else installed()
    if opened is None:
        raise ValueError(f"there is no index of precedents; make one: {BUILD_COMMAND}")
    result = opened.find(left, product, n)
    if as_json:
        show.print_json({"index": str(opened.path), "reactions": len(opened), **_precedents_document(result)})
    else:
        show.print_line(result.in_words, "bold")
        if result.same:
            show.print_line(f"  this very reaction is in {', '.join(result.same.files)}")
        show.print_rows(
            [
                {
                    "similarity": f"{precedent.similarity:.2f}",
                    "reaction": f"{precedent.reactants}>>{precedent.product}",
                    "reagents": precedent.text,
                    "patent": precedent.source,
                }
                for precedent in result.nearest
            ]
        )
        for conditions in result.conditions:
            show.print_line(f"  conditions of {conditions.count} of the nearest: {conditions.text}")
    raise typer.Exit(0 if result.wide or result.same else 1)


def _precedents_document(result: Found) -> dict[str, Any]:
    return {
        "close": result.close,
        "wide": result.wide,
        "nearest": [vars(item) for item in result.nearest],
        "conditions": [vars(item) | {"text": item.text} for item in result.conditions],
        "same": vars(result.same) if result.same else None,
        "product": result.product,
    }
