"""The command `precedents build`."""

import os
from pathlib import Path
from typing import Any

import typer

from chemspec.cli import options as opt
from chemspec.cli.base import app, command
from chemspec.data.settings import require_data_folder
from chemspec.system.files import OTHERS_BITS
from chemspec.terminal import console

group = typer.Typer(no_args_is_help=True)
app.add_typer(group, name="precedents", help="Patent reactions that make the same change.", rich_help_panel="Answers")
FILES = ("retro_train.csv.gz", "retro_extra_train.csv.gz", "forward_stereo_train.csv.gz")


@command("add", "Commands", group)
def add_own_reactions(table: Path, name: str = "", column: str = "") -> dict[str, Any]:
    """Keep a table of own reactions, which are precedents from then on, together with those of patents.

    Options:
        table TABLE: reactions, one per row, as reactants>>product, or in a column for each side; also by names.
        name: name to keep it under, in place of an older one; default: that of the file.
    """
    from chemspec.cli.own_table import read_table
    from chemspec.precedents.own import keep_reactions

    read = read_table(table, column)
    file = keep_reactions(name or table.name.partition(".")[0], read.reactions)
    console.print_line(f"{file}: {len(read.reactions)} reactions")
    return {"file": str(file), "reactions": len(read.reactions), "faults": [*map(list, read.faults)]}


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
        guess --guess/--no-guess: guess atom maps of rows without them; twice as slow for these rows.
        bits: bits of a product's fingerprint; fewer make a smaller index.
    """
    from chemspec.precedents.build import build_index
    from chemspec.precedents.installation import user_index_path

    folder = require_data_folder(source)
    paths = [folder / name for name in files or FILES]
    if not files and not (paths := [file for file in paths if file.is_file()]):
        raise ValueError(f"{folder} has none of {', '.join(FILES)}; name its files with --file")
    target = out or user_index_path()
    if out is None and not os.environ.get("CHEMSPEC_PRECEDENTS"):  # the user's own folder is private
        os.umask(OTHERS_BITS)
    target.parent.mkdir(parents=True, exist_ok=True)
    with console.progress_bar("reactions") as report:
        options: dict[str, Any] = {"guess": guess, "bits": bits, "workers": workers, "progress": report}
        summary = build_index(paths, target, reagents_from=[folder / name for name in reagents_from or ()], **options)
    console.print_line(f"{target}: {summary.text}")
    return {"file": str(target), **vars(summary)}
