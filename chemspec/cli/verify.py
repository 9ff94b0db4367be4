"""The command `verify`: decode the predictions of a file again by standard decoding, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command

if TYPE_CHECKING:  # slow imports
    from chemspec.engine.engine import Engine


@command("verify", "Answers")
def verify_answers(
    path: Annotated[Path, typer.Argument(help="File written with `chemspec predict --receipts`.", metavar="FILE")],
    sample: Annotated[int, opt.option("Number of rows to decode again, drawn at random; 0: all.")] = 0,
    seed: Annotated[int, opt.option("Seed of the sample.")] = 0,
    model: opt.ModelOption = "",
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Verify predictions: decode rows of a file again without drafts, one query at a time, and list those that differ.

    Exit code 1 if any row differs, or was changed after it was written.
    """
    from chemspec.engine.engine import Engine
    from chemspec.engine.registry import installed_models
    from chemspec.io.receipts import read_receipts, verify_receipts

    if sample < 0:
        raise ValueError(f"--sample {sample}; give a number of rows, or 0 for all")
    rows = read_receipts(path, sample, seed)
    if not rows:
        raise ValueError(f"{path} has no rows")

    installed = {folder.name for folder in installed_models()}

    def load(name: str, dtype: str, runtime: str) -> Engine:
        if not model and name not in installed:
            raise ValueError(f"model {name!r}, which wrote these rows, is not installed; choose it with --model")
        return Engine.load(model or name, dtype=dtype, runtime=runtime, threads=threads)

    with show.progress_bar("verifying", quiet=as_json) as report:
        differences = list(verify_receipts(rows, load, progress=report))
    if as_json:
        documents = [{"row": item.number, "query": item.query, "reason": item.reason} for item in differences]
        show.print_json({"rows": len(rows), "differences": documents})
    else:
        for item in differences:
            show.print_line(f"row {item.number}, {show.query_heading(item.query)}: {item.reason}")
        show.print_line(f"{len(differences)} of {len(rows)} differ", "bold")
    raise typer.Exit(1 if differences else 0)
