"""What can be said about an answer: its other spellings, faults, atoms it cannot have, whether it leads back."""

from __future__ import annotations

from dataclasses import dataclass

from chemspec import chem
from chemspec.chem import formula_balance
from chemspec.settings import Task
from chemspec.types import DecodeResult, Hypothesis


@dataclass(frozen=True)
class AnswerCard:
    """An answer with its other spellings; `rank` counts different molecules from 1."""

    rank: int
    best: Hypothesis
    others: tuple[Hypothesis, ...] = ()


@dataclass(frozen=True)
class Badge:
    """A badge: a sign and words, never colour alone. `kind` is good, bad, note or wait."""

    kind: str
    text: str


def cards(result: DecodeResult) -> list[AnswerCard]:
    """Return the answers best first, different spellings of one molecule together."""
    groups: dict[str, list[Hypothesis]] = {}
    for answer in result.hypotheses:
        groups.setdefault(answer.canonical or "?" + answer.smiles, []).append(answer)
    return [AnswerCard(rank, own[0], tuple(own[1:])) for rank, own in enumerate(groups.values(), 1)]


def badges(task: Task, query: str, card: AnswerCard) -> list[Badge]:
    """Return what can be said about an answer at once."""
    best = card.best
    shown = []
    if best.ended == "length":
        shown.append(Badge("bad", f"✂ cut after {len(best.tokens)} tokens"))
    elif not best.valid:
        shown.append(Badge("bad", f"✗ not a valid SMILES: {chem.explain(best.smiles) or ''}"))
    else:
        shown.append(Badge("good", "✓ valid"))
        left, right = (query, best.canonical) if task == "forward" else (best.canonical, query)
        lacking = formula_balance(left, right)
        if lacking:
            atoms = ", ".join(f"{element} {count}" for element, count in lacking.items())
            shown.append(Badge("bad", f"⚠ atoms the reactants cannot supply: {atoms}"))
        elif lacking is not None:
            shown.append(Badge("good", "✓ atoms accounted for"))
        if set(best.canonical.split(".")) & _products(task, query):
            returned = "returns the query" if task == "retro" else "returns a starting material"
            shown.append(Badge("bad", f"↺ {returned}"))
    if best.vote is not None:
        times = f"{best.vote.spellings} spelling{'s' * (best.vote.spellings > 1)} of the query"
        shown.append(Badge("note", f"⊕ merged: {times} gave it, at best as answer {best.vote.best_rank}"))
    if card.others:
        odds = ", ".join(chance(answer.probability) for answer in card.others)
        shown.append(Badge("note", f"≡ also found in another spelling ({odds})"))
    return shown


def _products(task: Task, query: str) -> set[str]:
    parts = set(query.split("."))
    main = chem.main_product(query)
    return parts if task == "forward" or main is None else {main}


def chance(odds: float) -> str:
    """Return a probability in as many digits as it bears."""
    return f"{odds:.2f}" if odds >= 0.01 else f"{odds:.1g}"


def round_trip_badge(result: DecodeResult, query: str) -> Badge:
    """Return whether the forward model's best answer is the query."""
    if result.status != "ok":
        return Badge("note", f"– no round trip: {result.message}")
    answer = result.hypotheses[0]
    if not answer.valid:
        return Badge("bad", "✗ round trip: the forward model's answer is no valid SMILES")
    if chem.same_molecules(answer.canonical, query) or (
        chem.main_product(answer.canonical) == chem.main_product(query)
    ):
        return Badge("good", "✓ round trip gives the query back")
    return Badge("bad", f"✗ round trip gives {answer.canonical}")
