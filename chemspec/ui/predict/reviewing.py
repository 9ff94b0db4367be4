"""The review behind the cards: its models wait in the queue, and checks are cached per session."""

from __future__ import annotations

import streamlit as st

from chemspec import precedents
from chemspec.engine.engine import Engine
from chemspec.model.checkpoint import CheckpointError
from chemspec.precedents import Precedents
from chemspec.review.forward_check import StepChecker
from chemspec.review.review import Review, review_result
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine, stock_menu
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.common.queued_engine import QueuedEngine
from chemspec.ui.predict.query_panel import Question

MAX_CHECKED = 8  # suggestions with a forward check


def review_answers(question: Question, result: DecodeResult, *, described: int | None = None) -> Review:
    """Return the review of predictions; the first `described` suggestions have precedents, reagents and stock."""
    return review_result(
        question.task,
        result,
        session_checker() if question.task == "retro" else StepChecker(None, index=installed_index()),
        query=question.smiles,
        stock=stock_menu.visitor_stock(),
        heads=MAX_CHECKED,
        described=described,
    )


def review_for_files(question: Question, result: DecodeResult) -> Review:
    """Return the review of predictions, with proposed reagents also where precedents have conditions."""
    review = review_answers(question, result)
    if question.task == "retro":
        heads = review.suggestions[:MAX_CHECKED]
        session_checker().propose(suggestion.reaction for suggestion in heads if suggestion.best.valid)
    return review_answers(question, result)


def review_unchecked(question: Question, result: DecodeResult) -> Review:
    """Return the review of predictions without a call of any model; for previews and examples."""
    checker = StepChecker(None, index=installed_index())
    stock = stock_menu.visitor_stock()
    return review_result(question.task, result, checker, query=question.smiles, stock=stock, described=question.cards)


def session_checker() -> StepChecker:
    """Return the visitor's checker, with what it has cached for the models in use."""
    forward, reagents, index = _forward_engine(), queued_engine.find_engine("reagents"), installed_index()

    def queued(engine: Engine | None) -> QueuedEngine | None:
        return QueuedEngine(engine) if engine else None

    return queued_engine.session_cached(
        "predict_checker",
        (forward, reagents, index),
        lambda: StepChecker(queued(forward), queued(reagents), index),
        most=2,
    )


def _forward_engine() -> Engine | None:
    """Return the engine of the forward checks; None without one, with a message if it cannot be loaded."""
    names = queued_engine.model_names("forward")
    try:
        return queued_engine.load_engine(names[0]) if names else None
    except (CheckpointError, ValueError) as error:
        st.error(f"The model {plain_text(names[0])} cannot be used: {plain_text(str(error))}")
        return None


def installed_index() -> Precedents | None:
    """Return the installed index; None where there is none that can be used (`precedents_footnote` says why)."""
    try:
        return precedents.installed()
    except (ValueError, OSError):
        return None
