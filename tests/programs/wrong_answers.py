"""Count wrong first answers by kind, with the surest of each: `python tests/programs/wrong_answers.py FILE -t TASK`.

FILE is what `chemspec evaluate` wrote. The table *Known failures* of a card is made of these counts (`--keep`); those
of November 2026 were stored by `evaluate --keep` itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

import chemspec.chem as chem
from chemspec.cli import options as opt
from chemspec.data.settings import find_test_file
from chemspec.engine.registry import model_folder
from chemspec.evaluation.accuracy import normalise_result, read_known_reactions, read_predictions
from chemspec.evaluation.measurements import store_measurements
from chemspec.model.checkpoint import digest_of_folder
from chemspec.settings import Task
from chemspec.tasks import TASKS, check_task
from chemspec.terminal import console

Answer = Mapping[str, Any]  # of `writers.result_document`


@dataclass(frozen=True)
class WrongAnswer:
    """A wrong first answer; all texts are canonical."""

    task: Task
    query: str
    truth: str
    answer: str


def _returns_input(wrong: WrongAnswer) -> bool:
    if wrong.task == "forward":
        return wrong.answer in wrong.query.split(".")
    return chem.main_product(wrong.query) in wrong.answer.split(".")


def _differs_in_stereo(wrong: WrongAnswer) -> bool:
    return chem.drop_stereo(wrong.answer) == chem.drop_stereo(wrong.truth)


def _differs_in_partner(wrong: WrongAnswer) -> bool:
    return wrong.task == "retro" and chem.main_product(wrong.answer) == chem.main_product(wrong.truth)


def _is_isomer(wrong: WrongAnswer) -> bool:
    sides = wrong.answer, wrong.truth
    return not any(chem.formula_balance(*pair) for pair in (sides, sides[::-1]))


def _is_unbalanced(wrong: WrongAnswer) -> bool:
    return bool(chem.formula_balance(*TASKS.lookup(wrong.task).sides(wrong.query, wrong.answer)))


# The first matching kind is used.
KINDS: dict[str, Callable[[WrongAnswer], bool]] = {
    "returns the query or a part of it": _returns_input,
    "right but for stereochemistry": _differs_in_stereo,
    "right main reactant, other partner": _differs_in_partner,
    "the same atoms joined otherwise (an isomer)": _is_isomer,
    "holds atoms that the reactants cannot supply": _is_unbalanced,
}


def _count_differences(wrong: WrongAnswer) -> tuple[int, int]:
    """Count superfluous and missing molecules."""
    written, true = (set(side.split(".")) for side in (wrong.answer, wrong.truth))
    return len(written - true), len(true - written)


# Kinds of errors of reagent sets.
SET_KINDS: dict[str, Callable[[WrongAnswer], bool]] = {
    "one reagent is missing": lambda wrong: _count_differences(wrong) == (0, 1),
    "one reagent too many": lambda wrong: _count_differences(wrong) == (1, 0),
    "one reagent is another": lambda wrong: _count_differences(wrong) == (1, 1),
    "no reagent in common": lambda wrong: not {*wrong.answer.split(".")} & {*wrong.truth.split(".")},
    "several reagents are others": lambda _: True,
}
FAULTY, EMPTY, OTHER = "no valid SMILES", "no answer", "another reaction"


def classify_error(query: str, truth: str, hypotheses: Sequence[Answer], task: Task) -> str:
    """Return the kind of error of the first answer; empty if it is correct."""
    if not hypotheses:
        return EMPTY
    first = hypotheses[0]
    if not first["valid"]:
        return FAULTY
    answer = first["canonical"]
    if answer == truth:
        return ""
    whole = TASKS.lookup(task).whole
    wrong = WrongAnswer(task, query if whole else chem.canonical(query) or query, truth, answer)
    return next((kind for kind, test in (SET_KINDS if whole else KINDS).items() if test(wrong)), OTHER)


def count_error_kinds(
    reactions: Sequence[tuple[str, str]], results: Sequence[Answer], task: Task
) -> dict[str, dict[str, Any]]:
    """Count wrong first answers by kind, with the most confident example of each."""
    faults: dict[str, dict[str, Any]] = {}
    for (query, truth), result in zip(reactions, results, strict=True):
        hypotheses = result["hypotheses"]
        kind = classify_error(query, truth, hypotheses, task)
        if not kind:
            continue
        fault = faults.setdefault(kind, {"count": 0, "example": None})
        fault["count"] += 1
        if not hypotheses:
            continue
        first = hypotheses[0]
        if fault["example"] is None or first["probability"] > fault["example"]["probability"]:
            fault["example"] = {
                "query": query,
                "truth": truth,
                "answer": first["canonical"] or first["smiles"],
                "probability": first["probability"],
            }
    return dict(sorted(faults.items(), key=lambda item: -item[1]["count"]))


def main(
    predictions: Annotated[Path, typer.Argument(help="What `chemspec evaluate` wrote (.jsonl).")],
    task: str,
    model: str = "",
    source: opt.Source = None,
    file: Annotated[Path | None, option("As given to evaluate.")] = None,
    limit: Annotated[int, option("As given to evaluate.")] = 0,
    seed: Annotated[int, option("As given to evaluate.")] = 0,
    keep_numbers: bool = False,
) -> None:
    """Count the kinds of wrong first answers, and print the surest example of each."""
    name = check_task(task)
    asked = read_known_reactions(file or find_test_file(source, task), name, limit=limit, seed=seed)
    results = [normalise_result(result, name) for result in read_predictions(predictions, asked)]
    faults = count_error_kinds([(item.query, item.answer) for item in asked], results, name)
    if keep_numbers:
        folder = model_folder(model or task)
        measured = {"reactions": len(asked), "faults": faults}
        store_measurements(folder, ["failures"], measured, digest=digest_of_folder(folder), command=opt.command_line())
    blank = dict.fromkeys(("query", "truth", "answer", "probability"), "")
    rows = [{"kind": kind, "count": fault["count"], **(fault["example"] or blank)} for kind, fault in faults.items()]
    console.print_rows(rows)


app = script(main)
if __name__ == "__main__":
    app()
