"""The review behind the cards, whose models wait in the queue, and of a whole reaction that the visitor typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

import streamlit as st

from chemspec import chem
from chemspec.chem.strategy import strategy
from chemspec.depict.schemes import scheme_sides
from chemspec.engine.engine import Engine
from chemspec.model.checkpoint import CheckpointError
from chemspec.precedents import installed_if_usable
from chemspec.review import reaction_check
from chemspec.review.forward_check import StepChecker
from chemspec.review.review import MAX_CHECKED, Review, review_result
from chemspec.review.suggestions import Suggestion, format_percent
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine, scheme, stock_menu
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.common.queued_engine import QueuedEngine
from chemspec.ui.predict.query_panel import Question


def review_answers(question: Question, result: DecodeResult, *, described: int | None = None) -> Review:
    """Return the review of predictions; the first `described` suggestions have precedents, reagents and stock."""
    return review_result(
        question.task,
        result,
        session_checker() if question.task == "retro" else StepChecker(None, index=installed_if_usable()),
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
    checker = StepChecker(None, index=installed_if_usable())
    stock = stock_menu.visitor_stock()
    return review_result(question.task, result, checker, query=question.smiles, stock=stock, described=question.cards)


def session_checker() -> StepChecker:
    """Return the visitor's checker, with what it has cached for the models in use."""
    forward, reagents, index = _forward_engine(), queued_engine.find_engine("reagents"), installed_if_usable()

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


def reaction_banner(question: Question, result: DecodeResult) -> str:
    """Return the verdict on the typed reaction, as safe HTML, with a drawing where no card shows it."""
    judgement = reaction_check.judge_predictions(question.task, question.smiles, question.expected, result)
    sign = "✓" if judgement.agrees and not judgement.problem else "⚠"
    text = judgement.sentence() + (f" ({format_percent(judgement.chance)})" if judgement.rank else "")
    problem = f"<br>As written: {escape(judgement.problem)}." if judgement.problem else ""
    drawing = "" if judgement.rank else _reaction_drawing(question)
    kind = " cs-fine" if sign == "✓" else ""
    summary = f"{sign} <b>Your reaction.</b> {escape(text)}.{problem}"
    return f'<div class="cs-banner{kind}" role="status">{summary}</div>{drawing}'


def _reaction_drawing(question: Question) -> str:
    flask, made = question.text.split(">>")
    product = chem.main_product(made) or made
    left, right = scheme_sides(flask, product, strategy(flask, product))
    return scheme.reaction_html(left, right, apart=True)


def reaction_tag(question: Question, card: Suggestion) -> str:
    """Return a mark for the card of the typed reaction, as safe HTML."""
    if not question.expected or not _is_typed_reaction(question, card):
        return ""
    return f'<span class="cs-ok">your {"product" if question.task == "forward" else "reactants"}</span>'


def _is_typed_reaction(question: Question, card: Suggestion) -> bool:
    answers = (answer.canonical for answer in card.members if answer.valid)
    return any(
        reaction_check.matches_expected(question.task, question.smiles, question.expected, answer) for answer in answers
    )


def include_typed_card(question: Question, cards: Sequence[Suggestion]) -> Question:
    """Return the question with enough cards to include the one of the typed reaction."""
    if not question.expected:
        return question
    rank = next((card.rank for card in cards if _is_typed_reaction(question, card)), 0)
    return replace(question, cards=max(question.cards, rank))
