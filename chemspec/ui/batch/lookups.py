"""Extra columns for the answers of a job: stock, patent reactions, the forward model's prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chemspec.chem.strategy import strategy
from chemspec.plan.stock import Stock
from chemspec.precedents import Precedents
from chemspec.review.forward_check import FORWARD_SETTINGS
from chemspec.review.suggestions import forward_check
from chemspec.settings import Task
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine, stock_menu, visitors
from chemspec.ui.common.fair_queue import BusyError
from chemspec.ui.predict import precedents

COLUMNS = ("class", "stock", "forward_model", "patent_reactions", "patents")
CHECK_BATCH = 32  # reactants in one turn: visitors at a page come between
Ask = Callable[[Sequence[str]], Sequence[DecodeResult]]


@dataclass(frozen=True)
class Lookups:
    """The sources of the extra columns; None leaves a column empty.

    Attributes:
        stock: what can be bought.
        index: patent reactions.
        forward: asks a forward model what forms from each of several sets of reactants.
    """

    stock: Stock | None = None
    index: Precedents | None = None
    forward: Ask | None = None

    def opinions(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the forward model's verdict on each (reactants, target) pair."""
        reactants = list(dict.fromkeys(reactant_set for reactant_set, _ in pairs))
        if self.forward is None or not reactants:
            return {}
        predictions = dict(zip(reactants, self.forward(reactants), strict=False))
        return {pair: _check_text(predictions[pair[0]], pair[1]) for pair in pairs if pair[0] in predictions}

    def cells(self, task: Task, query: str, answer: str, opinion: str) -> list[str | float]:
        """Return the cells of COLUMNS for a valid answer that is not the query itself."""
        left, right = (answer, query) if task == "retro" else (query, answer)
        change = strategy(left, right) if "." not in right else None
        marks = stock_menu.stock_marks(answer, self.stock) if self.stock is not None and task == "retro" else ()
        try:
            matches = self.index.find(left, right, n=precedents.MAX_NEAREST) if self.index else None
        except ValueError:  # the file was changed while it was open
            matches = None
        patents = "; ".join(precedent.source for precedent in matches.nearest if precedent.source) if matches else ""
        stock = "; ".join(filter(None, marks))
        return [change.name if change else "", stock, opinion, matches.close if matches else "", patents]


def visitor_lookups(task: Task) -> Lookups:
    """Return the visitor's sources. Call it while the page is drawn: a download runs outside of any page."""
    if task != "retro":
        return Lookups(index=precedents.installed_index())
    return Lookups(stock_menu.visitor_stock(), precedents.installed_index(), _forward_predictor())


def _forward_predictor() -> Ask | None:
    model = queued_engine.find_engine("forward", here=True)
    if model is None:
        return None
    visitor = visitors.visitor_id()

    def ask(reactants: Sequence[str]) -> Sequence[DecodeResult]:
        results: list[DecodeResult] = []
        for start in range(0, len(reactants), CHECK_BATCH):
            try:
                with queued_engine.shared_queue().wait_for_turn(visitor=visitor, patient=True):
                    results += model.predict(list(reactants[start : start + CHECK_BATCH]), FORWARD_SETTINGS)
            except BusyError:  # the columns of the rest stay empty
                break
        return results

    return ask


def _check_text(result: DecodeResult, target: str) -> str:
    check = forward_check(target, result)
    if not check.product:
        return ""
    if not check.agrees:
        return f"gives {check.product}"
    return "agrees" if check.sure else "unsure of it"
