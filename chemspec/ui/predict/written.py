"""The reaction that a visitor wrote down, beside what the model expects of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from chemspec import chem
from chemspec.chem.strategy import strategy
from chemspec.evaluation import reaction_check
from chemspec.types import DecodeResult
from chemspec.ui.common import scheme, theme
from chemspec.ui.predict import schemes
from chemspec.ui.predict.ask import Asked
from chemspec.ui.predict.verdicts import AnswerCard, percent


def banner(asked: Asked, result: DecodeResult) -> str:
    """Return what the model says of the reaction, as safe HTML; drawn where no card shows it."""
    found = reaction_check.judge_predictions(asked.task, asked.smiles, asked.expected, result)
    sign = "✓" if found.agrees and not found.problem else "⚠"
    told = found.sentence() + (f" ({percent(found.chance)})" if found.rank else "")
    problem = f"<br>As written: {escape(found.problem)}." if found.problem else ""
    drawing = "" if found.rank else _drawing(asked)
    kind = " cs-fine" if sign == "✓" else ""
    said = f"{sign} <b>Your reaction.</b> {escape(told)}.{problem}"
    return f'<div class="cs-banner{kind}" role="status">{said}</div>{drawing}'


def _drawing(asked: Asked) -> str:
    flask, made = asked.text.split(">>")
    product = chem.main_product(made) or made
    left, right = schemes.sides(flask, product, strategy(flask, product))
    return scheme.reaction(left, right, dark=theme.dark(), apart=True)


def tag(asked: Asked, card: AnswerCard) -> str:
    """Return a mark for the card that holds what was written down, as safe HTML."""
    if not asked.expected or not _holds(asked, card):
        return ""
    return f'<span class="cs-ok">your {"product" if asked.task == "forward" else "reactants"}</span>'


def _holds(asked: Asked, card: AnswerCard) -> bool:
    answers = (one.canonical for one in card.members if one.valid)
    return any(reaction_check.matches_expected(asked.task, asked.smiles, asked.expected, answer) for answer in answers)


def with_card(asked: Asked, found: Sequence[AnswerCard]) -> Asked:
    """Return the question with so many cards that the one which holds what was written down is among them."""
    if not asked.expected:
        return asked
    place = next((card.rank for card in found if _holds(asked, card)), 0)
    return replace(asked, cards=max(asked.cards, place))
