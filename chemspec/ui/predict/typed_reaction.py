"""A whole reaction typed by the visitor, compared with the model's predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from chemspec import chem
from chemspec.chem.strategy import strategy
from chemspec.depict.schemes import scheme_sides
from chemspec.review import reaction_check
from chemspec.review.suggestions import Suggestion, format_percent
from chemspec.types import DecodeResult
from chemspec.ui.common import scheme, theme
from chemspec.ui.predict.query_panel import Question


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
    return scheme.reaction_html(left, right, dark=theme.is_dark(), apart=True)


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
