"""What is looked up beside the answers of a job when its table is made: stock, patent reactions, the forward model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chemspec.chem.strategy import strategy
from chemspec.evaluation.roundtrip import FORWARD_SETTINGS
from chemspec.plan.stock import Stock
from chemspec.precedents import Precedents
from chemspec.settings import Task
from chemspec.types import DecodeResult
from chemspec.ui.common import buyable, queued_engine, visitors
from chemspec.ui.common.turns import BusyError
from chemspec.ui.predict import precedents
from chemspec.ui.predict.verdicts import opinion

COLUMNS = ("class", "stock", "forward_model", "patent_reactions", "patents")
AT_ONCE = 32  # reactants in one turn: visitors at a page come between
Ask = Callable[[Sequence[str]], Sequence[DecodeResult]]


@dataclass(frozen=True)
class Beside:
    """Where to look; what is None leaves its columns empty.

    Attributes:
        stock: what can be bought.
        index: patent reactions.
        forward: asks a forward model what forms from each of several sets of reactants.
    """

    stock: Stock | None = None
    index: Precedents | None = None
    forward: Ask | None = None

    def opinions(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return whether the forward model makes the targets of (reactants, target) again, or what it makes."""
        reactants = list(dict.fromkeys(one for one, _ in pairs))
        if self.forward is None or not reactants:
            return {}
        told = dict(zip(reactants, self.forward(reactants), strict=False))
        return {pair: _opinion(told[pair[0]], pair[1]) for pair in pairs if pair[0] in told}

    def cells(self, task: Task, query: str, answer: str, opinion: str) -> list[str | float]:
        """Return the cells of COLUMNS for an answer that is a molecule and no echo."""
        left, right = (answer, query) if task == "retro" else (query, answer)
        change = strategy(left, right) if "." not in right else None
        marks = buyable.marks(answer, self.stock) if self.stock is not None and task == "retro" else ()
        try:
            found = self.index.find(left, right, n=precedents.NEAREST) if self.index else None
        except ValueError:  # the file was changed while it was open
            found = None
        patents = "; ".join(one.source for one in found.nearest if one.source) if found else ""
        stock = "; ".join(filter(None, marks))
        return [change.name if change else "", stock, opinion, found.close if found else "", patents]


def of_visitor(task: Task) -> Beside:
    """Return what this visitor has: call it while the page is drawn, as a download is made outside of any page."""
    if task != "retro":
        return Beside(index=precedents.index())
    return Beside(buyable.stock(), precedents.index(), _forward())


def _forward() -> Ask | None:
    model = queued_engine.find("forward", here=True)
    if model is None:
        return None
    who = visitors.visitor()

    def ask(reactants: Sequence[str]) -> Sequence[DecodeResult]:
        found: list[DecodeResult] = []
        for start in range(0, len(reactants), AT_ONCE):
            try:
                with queued_engine.turns().turn(visitor=who, patient=True):
                    found += model.predict(list(reactants[start : start + AT_ONCE]), FORWARD_SETTINGS)
            except BusyError:  # the columns of the rest stay empty
                break
        return found

    return ask


def _opinion(result: DecodeResult, target: str) -> str:
    check = opinion(target, result)
    if not check.product:
        return ""
    if not check.agrees:
        return f"gives {check.product}"
    return "agrees" if check.sure else "unsure of it"
