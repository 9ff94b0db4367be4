"""What is wrong with wrong answers, in the words of a chemist, and the surest example of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chemspec import chem
from chemspec.settings import Task

Answer = Mapping[str, Any]  # of `files.brief`


@dataclass(frozen=True)
class Wrong:
    """A wrong first answer; all texts are canonical."""

    task: Task
    query: str
    truth: str
    answer: str


def _returned(one: Wrong) -> bool:
    if one.task == "forward":
        return one.answer in one.query.split(".")
    return chem.main_product(one.query) in one.answer.split(".")


def _stereo(one: Wrong) -> bool:
    return chem.drop_stereo(one.answer) == chem.drop_stereo(one.truth)


def _partner(one: Wrong) -> bool:
    return one.task == "retro" and chem.main_product(one.answer) == chem.main_product(one.truth)


def _isomer(one: Wrong) -> bool:
    sides = one.answer, one.truth
    return not any(chem.formula_balance(*pair) for pair in (sides, sides[::-1]))


def _unbalanced(one: Wrong) -> bool:
    sides = (one.query, one.answer) if one.task == "forward" else (one.answer, one.query)
    return bool(chem.formula_balance(*sides))


# The first that fits names the fault.
KINDS: dict[str, Callable[[Wrong], bool]] = {
    "returns the query or a part of it": _returned,
    "right but for stereochemistry": _stereo,
    "right main reactant, other partner": _partner,
    "the same atoms joined otherwise (an isomer)": _isomer,
    "holds atoms that the reactants cannot supply": _unbalanced,
}
FAULTY, EMPTY, OTHER = "no valid SMILES", "no answer", "another reaction"


def fault(query: str, truth: str, hypotheses: Sequence[Answer], task: Task) -> str:
    """What is wrong with the first answer; empty where it is right."""
    if not hypotheses:
        return EMPTY
    first = hypotheses[0]
    if not first["valid"]:
        return FAULTY
    answer = first["canonical"]
    if answer == truth:
        return ""
    wrong = Wrong(task, chem.canonical(query) or query, truth, answer)
    return next((kind for kind, test in KINDS.items() if test(wrong)), OTHER)


def faults(asked: Sequence[tuple[str, str]], results: Sequence[Answer], task: Task) -> dict[str, dict[str, Any]]:
    """By kind of fault: how many first answers have it, and the one that the model was surest of.

    Args:
        asked: queries and true answers, in the order of `results`.
    """
    found: dict[str, dict[str, Any]] = {}
    for (query, truth), result in zip(asked, results, strict=True):
        hypotheses = result["hypotheses"]
        kind = fault(query, truth, hypotheses, task)
        if not kind:
            continue
        own = found.setdefault(kind, {"count": 0, "example": None})
        own["count"] += 1
        if not hypotheses:
            continue
        first = hypotheses[0]
        if own["example"] is None or first["probability"] > own["example"]["probability"]:
            own["example"] = {
                "query": query,
                "truth": truth,
                "answer": first["canonical"] or first["smiles"],
                "probability": first["probability"],
            }
    return dict(sorted(found.items(), key=lambda item: -item[1]["count"]))
