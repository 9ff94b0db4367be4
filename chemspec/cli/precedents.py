"""Patent reactions with the same change: the commands `precedents build` and `precedents find`."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app, command
from chemspec.cli.options import Outcome
from chemspec.data.sources import require_data_folder
from chemspec.system.files import OTHERS_BITS

group = typer.Typer(no_args_is_help=True)
app.add_typer(group, name="precedents", help="Patent reactions that make the same change.", rich_help_panel="Answers")
FILES = ("retro_train.csv.gz", "retro_extra_train.csv.gz", "forward_stereo_train.csv.gz")


@command("build", "Commands", group)
def build_precedents(
    source: opt.Source = None,
    files: list[str] | None = None,
    reagents_from: list[str] | None = None,
    out: Path | None = None,
    guess: bool = True,
    bits: int = 512,
    workers: int = 2,
) -> dict[str, Any]:
    """Build an index of precedents from reaction CSVs.

    Options:
        files --file: CSV in the --source folder, repeatable; first those that separate reactants from reagents best.
        reagents_from: CSV in the --source folder, repeatable, that only adds reagents and patents to the reactions of
            --file.
        out -o: index file to write; default: the one that chemspec reads, in ~/.chemspec.
        guess --guess/--no-guess: guess atom maps of rows without them; five times slower for these rows.
        bits: bits of a product's fingerprint; fewer make a smaller index.
    """
    from chemspec.precedents.build import build_index
    from chemspec.precedents.search import user_index_path

    folder = require_data_folder(source)
    paths = [folder / name for name in files or FILES]
    if not files and not (paths := [file for file in paths if file.is_file()]):
        raise ValueError(f"{folder} has none of {', '.join(FILES)}; name its files with --file")
    target = out or user_index_path()
    if out is None and not os.environ.get("CHEMSPEC_PRECEDENTS"):  # in the user's own folder: private
        os.umask(OTHERS_BITS)
    target.parent.mkdir(parents=True, exist_ok=True)
    with show.progress_bar("rows") as report:
        options: dict[str, Any] = {"guess": guess, "bits": bits, "workers": workers, "progress": report}
        summary = build_index(paths, target, reagents_from=[folder / name for name in reagents_from or ()], **options)
    wide, close = summary.changes
    for line in (
        f"{target}: {summary.reactions} reactions, {summary.size / 1e6:.1f} MB",
        f"  of {summary.rows} rows; {summary.repeated} repeat a reaction, {summary.left_out} reactions cannot be used",
        f"  with reagents {summary.with_reagents}, with a patent's number {summary.with_patent}",
        f"  different changes {wide}, {close} with what is next to them",
    ):
        show.print_line(line)
    return {"file": str(target), **vars(summary)}


@command("find", "Commands", group)
def find_precedents(reaction: str, n: int = 3, index: Path | None = None) -> Outcome:
    """Find patent reactions with the same change: their number, the nearest ones, and their conditions.

    Exit code 1 if there is none.

    Options:
        reaction REACTION: reaction SMILES: reactants>>product, agents allowed between the >.
        n -n: number of precedents and of conditions listed.
        index: index file; default: the installed one.
    """
    from chemspec.precedents import BUILD_COMMAND, Precedents, installed
    from chemspec.review.reaction_check import read_reaction

    flask, product = read_reaction(reaction, "forward")
    opened = Precedents(index) if index else installed()
    if opened is None:
        raise ValueError(f"there is no index of precedents; make one: {BUILD_COMMAND}")
    result = opened.find(flask.smiles, product, n)
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
    document = {"index": str(opened.path), "reactions": len(opened), **asdict(result)}
    document["conditions"] = [asdict(item) | {"text": item.text} for item in result.conditions]
    return Outcome(document, 0 if result.wide or result.same else 1)
