"""The question of a plan as a `chemspec:` text, and back."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chemspec.chem import formats
from chemspec.chem.reactions.guide import bonds_by_name
from chemspec.plan.settings import PlanSettings
from chemspec.question_text import QuestionText, make_question, read_number

LIMITS: dict[str, type[float]] = {"seconds": float, "within": float, "expansions": int, "depth": int, "routes": int}
DEFAULT = PlanSettings()


def plan_question(target: str, settings: PlanSettings = DEFAULT, *, stock: Sequence[str] = (), **others: Any) -> str:
    """Return the text that rebuilds the question of a plan.

    Args:
        target: canonical SMILES.
        settings: limits and constraints, of which the text has those that are not the default.
        stock: names of the chosen lists; empty for those that are there by default.
        others: further fields of the text, empty for a default.
    """
    limits = {name: getattr(settings, name) for name in LIMITS}
    changed = {  # with a deadline the search itself has none
        name: f"{value:g}" for name, value in limits.items() if value != getattr(DEFAULT, name) and value < math.inf
    }
    protected = [name for name, pair in bonds_by_name(target).items() if pair in settings.keep]
    fields = {"smi": target, "use": settings.only, "drop": settings.without, "keep": protected}
    fields |= {"through": settings.through, "avoid": settings.avoid, "stock": tuple(stock)}
    return str(make_question("plan", fields | changed | others))


def question_settings(question: QuestionText, given: PlanSettings = DEFAULT) -> PlanSettings:
    """Return the settings of a question; limits that are given, and are not the default, stay.

    Raises:
        ValueError: for a field that cannot be read, or a bond that the target has not.
    """
    changes: dict[str, Any] = {}
    for name, kind in LIMITS.items():
        value = read_number(question, name, kind)
        if value is not None and getattr(given, name) == getattr(DEFAULT, name):
            changes[name] = value
    if "within" in changes:
        changes["seconds"] = math.inf
    for name, field in (("only", "use"), ("without", "drop"), ("avoid", "avoid")):
        changes[name] = (*question.fields.get(field, ()), *getattr(given, name))
    if protected := question.fields.get("keep", ()):
        read = formats.read_input(question.first("smi"), task="retro")
        bonds = bonds_by_name(read.smiles) if isinstance(read, formats.Input) else {}
        if missing := [name for name in protected if name not in bonds]:
            raise ValueError(f"the target has no bond {missing[0][:20]}; it has {', '.join(bonds) or 'none'}")
        changes["keep"] = tuple(bonds[name] for name in protected)
    return replace(given, through=given.through or question.first("through"), **changes)
