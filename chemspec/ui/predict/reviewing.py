"""The review behind the cards, whose models wait in the queue, and of a whole reaction that the visitor typed."""

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from chemspec import chem
from chemspec.chem.reactions.step_class import classify_step
from chemspec.depict.schemes import scheme_sides
from chemspec.precedents import installed_if_usable
from chemspec.review import reaction_check
from chemspec.review.forward_check import StepChecker
from chemspec.review.review import MAX_CHECKED, Review, review_result
from chemspec.review.suggestions import Suggestion, format_percent
from chemspec.settings import Task
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine, scheme, stock_menu
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.predict.query_panel import Question


def review_answers(
    question: Question, result: DecodeResult, *, described: int | None = None, models: bool = True
) -> Review:
    """Return the review of predictions, the first `described` (or all) with evidence; previews leave out `models`."""
    by_models = models and (question.task == "retro" or question.model == "forward")
    checker = session_checker(question.task) if by_models else StepChecker(None, index=installed_if_usable())
    stock, task = stock_menu.visitor_stock(), question.task
    return review_result(
        task, result, checker, query=question.smiles, stock=stock, heads=MAX_CHECKED, described=described
    )


def session_checker(task: Task = "retro") -> StepChecker:
    """Return the visitor's checker, with what it has cached for the models in use; products need no reagents."""
    forward = queued_engine.find_engine("forward")
    reagents = queued_engine.find_engine("reagents") if task == "retro" else None
    index = installed_if_usable()
    return queued_engine.session_cached(
        "predict_checker", (forward, reagents, index), lambda: StepChecker(forward, reagents, index), most=2
    )


def show_reaction_verdict(question: Question, result: DecodeResult, cards: Sequence[Suggestion]) -> None:
    """Show the verdict on the typed reaction, with a drawing where no card shows it."""
    judgement = reaction_check.judge_predictions(question.task, question.smiles, question.expected, result)
    text = judgement.sentence()
    if card := next((card for card in cards if is_typed_reaction(question, card)), None):
        similar = " together with similar ones" * bool(card.alternatives)
        text += f" ({format_percent(judgement.probability)}), on card {card.rank}{similar}"
    problem = f"  \nAs written: {plain_text(judgement.problem.removesuffix('.'))}." if judgement.problem else ""
    agrees = judgement.agrees and not judgement.problem
    show, icon = (st.success, "✔️") if agrees else (st.warning, "⚠️")
    show(f"**Your reaction.** {plain_text(text)}.{problem}", icon=icon)
    if not judgement.rank:
        flask, written = question.text.split(">>")
        product = chem.main_product(written) or written
        left, right = scheme_sides(flask, product, classify_step(flask, product))
        st.html(scheme.reaction_html(left, right, apart=True))


def is_typed_reaction(question: Question, card: Suggestion) -> bool:
    """Return whether a card has the other side of the reaction that was typed."""
    return any(
        reaction_check.matches_expected(question.task, question.smiles, question.expected, answer.canonical)
        for answer in card.members
        if answer.valid
    )


def include_typed_card(question: Question, cards: Sequence[Suggestion]) -> Question:
    """Return the question with enough cards to include the one of the typed reaction."""
    if not question.expected:
        return question
    rank = next((card.rank for card in cards if is_typed_reaction(question, card)), 0)
    return replace(question, cards=max(question.cards, rank))
