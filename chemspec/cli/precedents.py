"""Patent reactions that do the same: `precedents build` and `precedents find`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app
from chemspec.system.files import OTHERS

if TYPE_CHECKING:
    from chemspec.precedents import Found

group = typer.Typer(no_args_is_help=True)
app.add_typer(group, name="precedents", help="Patent reactions that make the same change.", rich_help_panel="Answers")
FILES = ("retro_train.csv.gz", "retro_extra_train.csv.gz", "forward_stereo_train.csv.gz")


@group.command()
def build(
    source: opt.SourceOption = None,
    files: Annotated[
        list[str] | None,
        opt.option("CSV in that folder, repeatable; those that part reactants from reagents best first.", "--file"),
    ] = None,
    out: Annotated[
        Path | None, opt.option("File to write; default where chemspec looks for it, in ~/.chemspec.", "--out", "-o")
    ] = None,
    guess: Annotated[
        bool,
        opt.option("Guess the atom maps of rows that have none; a fifth of the speed for these.", "--guess/--no-guess"),
    ] = True,
    reagents_from: Annotated[
        list[str] | None,
        opt.option("CSV in that folder, repeatable, that only adds reagents and patents to the reactions of --file."),
    ] = None,
    bits: Annotated[int, opt.option("Of a product's fingerprint; fewer make a smaller index.")] = 512,
    workers: Annotated[int, opt.option("Processes.")] = 2,
    limit: Annotated[int, opt.option("Use only so many rows of each file (for a trial).")] = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Make an index of precedents from reaction CSVs; resumable, the same command goes on."""
    from chemspec.precedents.build import build_index
    from chemspec.precedents.default import user_index_path

    folder = opt.data_folder(source)
    chosen = [folder / name for name in files or FILES]
    if not files:
        chosen = [file for file in chosen if file.is_file()]
        if not chosen:
            raise ValueError(f"{folder} has none of {', '.join(FILES)}; name its files with --file")
    target = out or user_index_path()
    if out is None and not os.environ.get("CHEMSPEC_PRECEDENTS"):  # in the user's own folder: of nobody else's concern
        os.umask(OTHERS)
    target.parent.mkdir(parents=True, exist_ok=True)
    with show.progress("rows") as report:
        told = build_index(
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
        show.document({"file": str(target), **vars(told)})
        return
    wide, close = told.changes
    show.line(f"{target}: {told.reactions} reactions, {told.size / 1e6:.1f} MB")
    show.line(f"  of {told.rows} rows; {told.repeated} repeat a reaction, {told.left_out} reactions cannot be used")
    show.line(f"  with reagents {told.with_reagents}, with a patent's number {told.with_patent}")
    show.line(f"  different changes {wide}, {close} with what is next to them")


@group.command()
def find(
    reaction: Annotated[str, typer.Argument(help="Reaction SMILES: reactants>>product, agents allowed between the >.")],
    n: Annotated[int, opt.option("Precedents, and conditions.", "--n", "-n")] = 3,
    index: Annotated[Path | None, opt.option("The index; default the installed one.")] = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Show how many patent reactions make a change, the nearest ones, and their conditions.

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
    known = Precedents.open(index) if index else installed()
    if known is None:
        raise ValueError(f"there is no index of precedents; make one: {BUILD_COMMAND}")
    found = known.find(left, product, n)
    if as_json:
        show.document({"index": str(known.path), "reactions": len(known), **_document(found)})
    else:
        show.line(found.in_words, "bold")
        if found.same:
            show.line(f"  this very reaction is in {', '.join(found.same.files)}")
        content = Table(box=None, header_style="dim")
        for name in ("similarity", "reaction", "reagents", "patent"):
            content.add_column(name, overflow="fold")
        for one in found.nearest:
            cells = (f"{one.similarity:.2f}", f"{one.reactants}>>{one.product}", one.text, one.source)
            content.add_row(*map(escape, cells))
        if found.nearest:
            show.table(content)
        for own in found.conditions:
            show.line(f"  conditions of {own.count} of the nearest: {own.text}")
    raise typer.Exit(0 if found.wide or found.same else 1)


def _document(found: Found) -> dict[str, Any]:
    return {
        "close": found.close,
        "wide": found.wide,
        "nearest": [vars(one) for one in found.nearest],
        "conditions": [vars(one) | {"text": one.text} for one in found.conditions],
        "same": vars(found.same) if found.same else None,
        "product": found.product,
    }
