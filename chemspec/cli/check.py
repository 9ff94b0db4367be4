"""Ask the models about a whole reaction: `check`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from chemspec import tasks as questions
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app

SHOWN = 3  # of the other answers


@app.command(rich_help_panel="Answers")
def check(
    reaction: Annotated[str, typer.Argument(help="Reaction SMILES, an RXN, RDF or CDXML file, or - for stdin.")],
    task: opt.TaskOption = "",
    model: opt.ModelOption = "",
    n: opt.NOption = 10,
    dtype: opt.DtypeOption = "auto",
    device: opt.DeviceOption = "auto",
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Check a reaction: does a model expect it, at which rank, and what else; both ways unless told which.

    Exit code 1 says that no model puts it first.
    """
    from dataclasses import replace

    from chemspec.engine.registry import installed
    from chemspec.evaluation import reaction_check

    text = _text(reaction)
    names = {folder.name for folder in installed()}
    tasks = [task] if task or model else [one for one in questions.about_molecules() if one in names]
    if not tasks:
        raise ValueError("no model named forward or retro is installed; choose one with --model")
    checks = []
    for one in tasks:
        engine = opt.load(one, model, device=device, dtype=dtype, threads=threads)
        found = reaction_check.check(engine, text, replace(reaction_check.HOW, n=n))
        checks.append(found)
        if not as_json:
            _print(found)
    if as_json:
        show.document({"checks": [_brief(found) for found in checks]})
    raise typer.Exit(0 if any(found.agrees for found in checks) else 1)


def _text(given: str) -> str:
    from chemspec.io import readers

    if given == "-":
        return "\n".join(readers.lines_of(sys.stdin))
    path = Path(given)
    if path.suffix.lower() in (".rxn", ".rdf", ".cdxml", ".smi", ".txt"):
        try:
            return readers.decode_text(path.read_bytes())
        except OSError as error:
            raise readers.FileError(f"{path} cannot be read: {error.strerror or error}") from error
    return given


def _print(found: Any) -> None:
    show.line(f"{found.task}: {found.sentence()}" + (f" ({found.chance:.0%})" if found.rank else ""), "bold")
    if found.problem:
        show.line(f"  as written: {found.problem}", "yellow")
    for other in found.others[:SHOWN]:
        odds = other.probability if other.confidence is None else other.confidence
        show.line(f"  also expected: {other.canonical} ({odds:.0%})")


def _brief(found: Any) -> dict[str, Any]:
    from chemspec.io import writers

    names = ("task", "query", "expected", "agrees", "rank", "answers", "chance", "near", "nearly", "problem")
    brief = writers.brief(found.result)
    return {name: getattr(found, name) for name in names} | {"said": found.sentence(), "result": brief}
