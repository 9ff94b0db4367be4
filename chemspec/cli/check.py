"""Ask the models about a whole reaction: `check`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from chemspec import tasks as questions
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app

SHOWN = 3  # of the other answers
_ARROW = re.compile(r"(?<!-)>.*(?<!-)>\s*\S|\u2192")  # of a reaction that is whole in its line


@app.command(rich_help_panel="Answers")
def check(
    reaction: Annotated[
        str, typer.Argument(help="Reaction SMILES, a file (.rxn .rdf .cdxml .ket .csv ...) of them, or - for stdin.")
    ],
    column: opt.ColumnOption = "",
    task: opt.TaskOption = "",
    model: opt.ModelOption = "",
    n: opt.NOption = 10,
    dtype: opt.DtypeOption = "auto",
    device: opt.DeviceOption = "auto",
    threads: opt.ThreadsOption = 0,
    as_json: opt.JsonOption = False,
) -> None:
    """Check a reaction: does a model expect it, at which rank, and what else; both ways unless told which.

    Exit code 1 says that no model puts it first, or of several reactions one of them.
    """
    from dataclasses import replace

    from chemspec.engine.registry import installed
    from chemspec.evaluation import reaction_check

    texts = _texts(reaction, column)
    names = {folder.name for folder in installed()}
    tasks = [task] if task or model else [one for one in questions.about_molecules() if one in names]
    if not tasks:
        raise ValueError("no model named forward or retro is installed; choose one with --model")
    engines = [opt.load(one, model, device=device, dtype=dtype, threads=threads) for one in tasks]
    checks, agreed = [], True
    for text in texts:
        if len(texts) > 1 and not as_json:
            show.line(show.name_of(text))
        try:
            found = [reaction_check.check(engine, text, replace(reaction_check.HOW, n=n)) for engine in engines]
        except ValueError as error:
            if len(texts) == 1:
                raise
            show.note(f"{show.name_of(text)}: {error}")
            found = []
        checks += found
        agreed = agreed and any(one.agrees for one in found)
        for one in () if as_json else found:
            _print(one)
    if as_json:
        show.document({"checks": [_brief(one) for one in checks]})
    raise typer.Exit(0 if agreed else 1)


def _texts(given: str, column: str) -> list[str]:
    """Return the reactions of an argument, a file or standard input; lines that are none alone are one together."""
    from chemspec.io import readers

    if given == "-":
        lines = readers.read_stdin_lines(sys.stdin)
    elif readers.looks_like_file(given):
        lines = readers.read_queries(Path(given), column, questions.about_reactions(), show.note)
    else:
        return [given]
    alone = [line for line in lines if line.strip()]
    return alone if any(map(_ARROW.search, alone)) else ["\n".join(lines)]


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
    brief = writers.result_document(found.result)
    return {name: getattr(found, name) for name in names} | {"said": found.sentence(), "result": brief}
