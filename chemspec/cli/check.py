"""The commands `check`, whether models expect a reaction, and `verify`, whether predictions can be repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chemspec import tasks as questions
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.terminal import console
from chemspec.terminal.documented_options import Outcome

if TYPE_CHECKING:
    from chemspec.engine.engine import Engine
    from chemspec.review.reaction_check import ReactionCheck

MAX_ALTERNATIVES = 3  # alternatives listed for a reaction


@command("check", "Answers")
def check_reactions(
    reaction: str,
    column: str = "",
    task: str = "",
    model: str = "",
    n: int = 10,
    why: bool = False,
    *,
    hardware: opt.Hardware,
) -> Outcome:
    """Check a reaction: rank of its product (forward) and of its reactants (retro), with alternatives.

    Without --task both models are used. With a retro model the forward check says whether the forward model confirms
    the reactants, and those of the alternatives, and patent reactions with the same change are counted. Exit code 1 if
    any reaction is not some model's first prediction.

    Options:
        reaction REACTION: reaction SMILES, a file (.rxn .rdf .cdxml .ket .csv ...) of them, or - for stdin.
        why: also score the given side token by token: where it leaves the model's path, and what would change that.
    """
    from chemspec.engine.registry import installed_models
    from chemspec.evaluation.loading import COMPANIONS, load_engines
    from chemspec.io.readers import read_given_reactions
    from chemspec.precedents import installed
    from chemspec.review.forward_check import StepChecker
    from chemspec.review.reaction_check import CHECK_SETTINGS, check_reaction

    texts = read_given_reactions(reaction, column, console.print_note)
    names = {folder.name for folder in installed_models()}
    tasks = [task] if task or model else [name for name in questions.about_molecules() if name in names]
    if not tasks:
        raise ValueError("no model named forward or retro is installed; choose one with --model")
    engines = [hardware.load(name, model) for name in tasks]
    checker = None
    if any(engine.task == "retro" for engine in engines):
        companions = load_engines(COMPANIONS, **hardware.loading)
        checker = StepChecker(companions.get("forward"), companions.get("reagents"), installed())
    agreed = True
    documents: list[dict[str, Any]] = []
    for text in texts:
        if len(texts) > 1:
            console.print_line(show.query_heading(text))
        try:
            checks = [check_reaction(engine, text, replace(CHECK_SETTINGS, n=n), checker) for engine in engines]
        except ValueError as error:
            if len(texts) == 1:
                raise
            console.print_note(f"{show.query_heading(text)}: {error}")
            checks = []
        agreed = agreed and any(check.agrees for check in checks)
        for engine, check in zip(engines, checks, strict=False):
            documents.append(_print_check(check))
            if why:
                documents[-1]["why"] = _print_argument(engine, check)
    return Outcome({"checks": documents}, 0 if agreed else 1)


def _print_check(check: ReactionCheck) -> dict[str, Any]:
    from chemspec.review.suggestions import format_percent

    chance = f" ({format_percent(check.probability)})" if check.rank else ""
    console.print_line(f"{check.task}: {check.sentence()}{chance}", "bold")
    if check.problem:
        console.print_line(f"  as written: {check.problem}", "yellow")
    if check.forward:
        console.print_line(f"  forward model: {check.forward.text} ({format_percent(check.forward.probability)})")
    for other in check.others[:MAX_ALTERNATIVES]:
        forward = check.forward_of.get(other.canonical)
        verdict = f"; forward model: {forward.text} ({format_percent(forward.probability)})" if forward else ""
        console.print_line(f"  also expected: {other.canonical} ({format_percent(other.probability)}{verdict})")
    if check.precedents:
        nearest = "; ".join(entry.source for entry in check.precedents.nearest if entry.source)
        console.print_line(f"  precedents: {check.precedents.in_words}{nearest and f' ({nearest})'}")
    return check.document()


def _print_argument(engine: Engine, check: ReactionCheck) -> dict[str, Any] | None:
    """Print why a model expects another answer, and return that as a JSON document; None if it cannot be scored."""
    from chemspec.precedents import installed_if_usable
    from chemspec.review.argument import argue
    from chemspec.review.suggestions import format_percent

    try:
        argument = argue(engine, check, installed_if_usable())
    except ValueError as error:
        console.print_note(f"why: {error}")
        return None
    console.print_line(f"  why: {argument.path_sentence}")
    console.print_line(f"  {argument.rank_sentence}")
    console.print_line(f"  as scored: {argument.marked_text}")
    for words, records in zip(("given", "the model's"), argument.records, strict=True):
        if records:
            console.print_line(f"  precedents, {words}: {records.in_words}")
    for variation in argument.variations:
        first = f"{variation.first or 'no molecule'} ({format_percent(variation.first_probability)})"
        gives = f"the given one ({format_percent(variation.first_probability)})" if variation.agrees else first
        console.print_line(f"  {variation.change}: {gives}")
    return argument.document()


@command("verify", "Answers")
def verify_answers(path: Path, sample: int = 0, seed: int = 0, model: str = "", threads: int = 0) -> Outcome:
    """Verify predictions: decode rows of a file again without drafts, one query at a time, and list those that differ.

    Exit code 1 if any row differs, or was changed after it was written.

    Options:
        path FILE: file written with `chemspec predict --receipts`.
        sample: number of rows to decode again, drawn at random; 0: all.
        model -m: model: folder or installed name; default: the installed one that wrote the rows.
    """
    from chemspec.io.receipts import read_receipts, verify_receipts

    rows = read_receipts(path, sample, seed)
    with console.progress_bar("verifying") as report:
        differences = list(verify_receipts(rows, model, threads=threads, progress=report))
    for row, reason in differences:
        console.print_line(f"row {row.number}, {show.query_heading(row.row['query'])}: {reason}")
    console.print_line(f"{len(differences)} of {len(rows)} differ or cannot be decoded again", "bold")
    documents = [{"row": row.number, "query": row.row["query"], "reason": reason} for row, reason in differences]
    return Outcome({"rows": len(rows), "differences": documents}, 1 if differences else 0)
