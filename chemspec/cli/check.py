"""The command `check`: compare a whole reaction with the models' predictions."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from chemspec import tasks as questions
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command

MAX_ALTERNATIVES = 3  # alternatives listed for a reaction
_ARROW = re.compile(r"(?<!-)>.*(?<!-)>\s*\S|\u2192")  # a line that contains a whole reaction


@command("check", "Answers")
def check_reactions(
    reaction: Annotated[
        str, typer.Argument(help="Reaction SMILES, a file (.rxn .rdf .cdxml .ket .csv ...) of them, or - for stdin.")
    ],
    column: opt.ColumnOption = "",
    task: opt.TaskOption = "",
    model: opt.ModelOption = "",
    n: opt.NOption = 10,
    *,
    hardware: opt.Hardware,
    as_json: opt.JsonOption = False,
) -> None:
    """Check a reaction: rank of its product (forward) and of its reactants (retro), with alternatives.

    Without --task both models are used. With a retro model the forward check says whether the forward model confirms
    the reactants, and those of the alternatives. Exit code 1 if any reaction is not some model's first prediction.
    """
    from dataclasses import replace

    from chemspec.engine.registry import installed_models
    from chemspec.precedents import installed
    from chemspec.review import reaction_check
    from chemspec.review.engines import load_engines
    from chemspec.review.forward_check import StepChecker

    texts = _read_reactions(reaction, column)
    names = {folder.name for folder in installed_models()}
    tasks = [task] if task or model else [name for name in questions.about_molecules() if name in names]
    if not tasks:
        raise ValueError("no model named forward or retro is installed; choose one with --model")
    engines = [hardware.load(name, model) for name in tasks]
    companions = {}
    if any(engine.task == "retro" for engine in engines):
        companions = load_engines(("forward", "reagents"), **vars(hardware))
    checker = StepChecker(companions.get("forward"), companions.get("reagents"), installed() if companions else None)
    checks, agreed = [], True
    for text in texts:
        if len(texts) > 1 and not as_json:
            show.print_line(show.query_heading(text))
        try:
            model_checks = [
                reaction_check.check_reaction(engine, text, replace(reaction_check.CHECK_SETTINGS, n=n), checker)
                for engine in engines
            ]
        except ValueError as error:
            if len(texts) == 1:
                raise
            show.print_note(f"{show.query_heading(text)}: {error}")
            model_checks = []
        checks += model_checks
        agreed = agreed and any(item.agrees for item in model_checks)
        for check in () if as_json else model_checks:
            _print_check(check)
    if as_json:
        show.print_json({"checks": [_check_document(item) for item in checks]})
    raise typer.Exit(0 if agreed else 1)


def _read_reactions(given: str, column: str) -> list[str]:
    """Return the reactions of an argument, a file or standard input; lines without an arrow are joined into one."""
    from chemspec.io import readers

    if given == "-":
        lines = readers.read_stdin_lines(sys.stdin)
    elif readers.looks_like_file(given):
        lines = readers.read_queries(Path(given), column, questions.about_reactions(), show.print_note)
    else:
        return [given]
    alone = [line for line in lines if line.strip()]
    return alone if any(map(_ARROW.search, alone)) else ["\n".join(lines)]


def _print_check(check: Any) -> None:
    show.print_line(f"{check.task}: {check.sentence()}" + (f" ({check.chance:.0%})" if check.rank else ""), "bold")
    if check.problem:
        show.print_line(f"  as written: {check.problem}", "yellow")
    if check.forward:
        show.print_line(f"  forward model: {check.forward.text} ({check.forward.probability:.0%})")
    for other in check.others[:MAX_ALTERNATIVES]:
        odds = other.probability if other.confidence is None else other.confidence
        forward = check.forward_of.get(other.canonical)
        verdict = f"; forward model: {forward.text} ({forward.probability:.0%})" if forward else ""
        show.print_line(f"  also expected: {other.canonical} ({odds:.0%}{verdict})")


def _check_document(check: Any) -> dict[str, Any]:
    from chemspec.io import writers
    from chemspec.review.review import check_document

    names = ("task", "query", "expected", "agrees", "rank", "answers", "chance", "near", "nearly", "problem")
    brief = writers.result_document(check.result)
    document = {name: getattr(check, name) for name in names} | {"said": check.sentence(), "result": brief}
    document["forward"] = check_document(check.forward)
    document["forward_of"] = {smiles: check_document(forward) for smiles, forward in check.forward_of.items()}
    return document
