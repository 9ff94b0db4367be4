"""Extra columns for the answers of a job: class, stock, forward check, patent reactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chemspec.chem.strategy import strategy
from chemspec.engine.engine import Engine
from chemspec.plan.stock import Stock, stock_marks
from chemspec.precedents import Precedents
from chemspec.review.forward_check import StepChecker, find_precedents
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine, stock_menu, visitors
from chemspec.ui.common.fair_queue import BusyError
from chemspec.ui.predict import reviewing

COLUMNS = ("class", "stock", "forward_model", "patent_reactions", "patents")
Cell = str | float
CHECK_BATCH = 32  # steps in one turn: visitors at a page come between


@dataclass(frozen=True)
class Lookups:
    """The sources of the extra columns; None leaves a column empty.

    Attributes:
        stock: what can be bought.
        index: patent reactions.
        checker: the forward check.
    """

    stock: Stock | None = None
    index: Precedents | None = None
    checker: StepChecker | None = None

    def opinions(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the forward model's verdict on each (reactants, target) pair."""
        texts: dict[tuple[str, str], str] = {}
        for start in range(0, len(pairs) if self.checker else 0, CHECK_BATCH):
            part = pairs[start : start + CHECK_BATCH]
            try:
                checks = self.checker.check([(target, reactants) for reactants, target in part]) if self.checker else []
            except BusyError:  # the columns of the rest stay empty
                break
            texts |= {pair: check.text for pair, check in zip(part, checks, strict=True) if check}
        return texts

    def columns(self, task: Task, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Cell]]:
        """Return the extra columns, by name, of each (answer, query) pair of molecules."""
        opinions = self.opinions(pairs) if task == "retro" else {}
        return {pair: self._cells(task, *pair, opinions.get(pair, "")) for pair in pairs}

    def _cells(self, task: Task, answer: str, query: str, opinion: str) -> dict[str, Cell]:
        left, right = (answer, query) if task == "retro" else (query, answer)
        change = strategy(left, right) if "." not in right else None
        marks = stock_marks(answer, self.stock) if self.stock is not None and task == "retro" else ()
        matches = find_precedents(self.index, (right, left))
        patents = "; ".join(precedent.source for precedent in matches.nearest if precedent.source) if matches else ""
        values = (change.name if change else "", "; ".join(filter(None, marks)), opinion)
        return dict(zip(COLUMNS, (*values, matches.close if matches else "", patents), strict=True))


def visitor_lookups(task: Task) -> Lookups:
    """Return the visitor's sources. Call it while the page is drawn: a download runs outside of any page."""
    index = reviewing.installed_index()
    if task != "retro":
        return Lookups(index=index)
    forward, reagents = (_patient_engine(task) for task in ("forward", "reagents"))
    return Lookups(stock_menu.visitor_stock(), index, StepChecker(forward, reagents, index) if forward else None)


def _patient_engine(task: Task) -> _PatientEngine | None:
    engine = queued_engine.find_engine(task, here=True)
    return _PatientEngine(engine, visitors.visitor_id()) if engine else None


@dataclass(frozen=True)
class _PatientEngine:
    """An engine that lets visitors at a page go first; it may be used outside of a page."""

    engine: Engine
    visitor: str | None

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        with queued_engine.shared_queue().wait_for_turn(visitor=self.visitor, patient=True):
            return self.engine.predict(list(queries), settings)
