"""The commands `check`, whether models expect a reaction, and `verify`, whether predictions can be repeated."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from chemspec import tasks as questions
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.cli.options import Outcome

MAX_ALTERNATIVES = 3  # alternatives listed for a reaction
_ARROW = re.compile(r"(?<!-)>.*(?<!-)>\s*\S|\u2192")  # a line that contains a whole reaction


@command("check", "Answers")
def check_reactions(
    reaction: str, column: str = "", task: str = "", model: str = "", n: int = 10, *, hardware: opt.Hardware
) -> Outcome:
    """Check a reaction: rank of its product (forward) and of its reactants (retro), with alternatives.

    Without --task both models are used. With a retro model the forward check says whether the forward model confirms
    the reactants, and those of the alternatives. Exit code 1 if any reaction is not some model's first prediction.

    Options:
        reaction REACTION: reaction SMILES, a file (.rxn .rdf .cdxml .ket .csv ...) of them, or - for stdin.
    """
    from chemspec.engine.registry import installed_models
    from chemspec.precedents import installed
    from chemspec.review.forward_check import StepChecker
    from chemspec.review.reaction_check import CHECK_SETTINGS, check_reaction
    from chemspec.review.review import load_engines

    texts = _read_reactions(reaction, column)
    names = {folder.name for folder in installed_models()}
    tasks = [task] if task or model else [name for name in questions.about_molecules() if name in names]
    if not tasks:
        raise ValueError("no model named forward or retro is installed; choose one with --model")
    engines = [hardware.load(name, model) for name in tasks]
    companions = {}
    if any(engine.task == "retro" for engine in engines):
        companions = load_engines(("forward", "reagents"), **hardware.loading)
    checker = StepChecker(companions.get("forward"), companions.get("reagents"), installed() if companions else None)
    agreed = True
    documents: list[dict[str, Any]] = []
    for text in texts:
        if len(texts) > 1:
            show.print_line(show.query_heading(text))
        try:
            checks = [check_reaction(engine, text, replace(CHECK_SETTINGS, n=n), checker) for engine in engines]
        except ValueError as error:
            if len(texts) == 1:
                raise
            show.print_note(f"{show.query_heading(text)}: {error}")
            checks = []
        agreed = agreed and any(check.agrees for check in checks)
        documents += map(_print_check, checks)
    return Outcome({"checks": documents}, 0 if agreed else 1)


def _read_reactions(given: str, column: str) -> list[str]:
    """Return the reactions of an argument, a file or standard input; lines without an arrow are joined into one."""
    lines, source = opt.read_texts([given], column, questions.about_reactions())
    if not source:
        return lines
    if not (alone := [line for line in lines if line.strip()]):
        raise ValueError(f"there is no reaction in {source}")
    return alone if any(map(_ARROW.search, alone)) else ["\n".join(lines)]


def _print_check(check: Any) -> dict[str, Any]:
    from chemspec.io import writers
    from chemspec.review.review import check_document

    show.print_line(f"{check.task}: {check.sentence()}" + (f" ({check.probability:.0%})" if check.rank else ""), "bold")
    if check.problem:
        show.print_line(f"  as written: {check.problem}", "yellow")
    if check.forward:
        show.print_line(f"  forward model: {check.forward.text} ({check.forward.probability:.0%})")
    for other in check.others[:MAX_ALTERNATIVES]:
        odds = other.probability if other.confidence is None else other.confidence
        forward = check.forward_of.get(other.canonical)
        verdict = f"; forward model: {forward.text} ({forward.probability:.0%})" if forward else ""
        show.print_line(f"  also expected: {other.canonical} ({odds:.0%}{verdict})")
    return {
        **vars(check),
        "agrees": check.agrees,
        "chance": check.probability,
        "said": check.sentence(),
        "result": writers.result_document(check.result),
        "forward": check_document(check.forward),
        "forward_of": {smiles: check_document(forward) for smiles, forward in check.forward_of.items()},
    }


@command("verify", "Answers")
def verify_answers(path: Path, sample: int = 0, seed: int = 0, model: str = "", threads: int = 0) -> Outcome:
    """Verify predictions: decode rows of a file again without drafts, one query at a time, and list those that differ.

    Exit code 1 if any row differs, or was changed after it was written.

    Options:
        path FILE: file written with `chemspec predict --receipts`.
        sample: number of rows to decode again, drawn at random; 0: all.
    """
    from chemspec.io.receipts import read_receipts, verify_receipts

    rows = read_receipts(path, sample, seed)
    with show.progress_bar("verifying") as report:
        differences = list(verify_receipts(rows, model, threads=threads, progress=report))
    for row, reason in differences:
        show.print_line(f"row {row.number}, {show.query_heading(row.row['query'])}: {reason}")
    show.print_line(f"{len(differences)} of {len(rows)} differ", "bold")
    documents = [{"row": row.number, "query": row.row["query"], "reason": reason} for row, reason in differences]
    return Outcome({"rows": len(rows), "differences": documents}, 1 if differences else 0)
