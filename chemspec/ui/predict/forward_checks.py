"""Round-trip checks: the forward model on proposed precursors, with and without reagents, cached per session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.metrics import PassCounts
from chemspec.review.forward_check import FORWARD_SETTINGS
from chemspec.review.suggestions import AnswerCard, Check, forward_check, rank_cards
from chemspec.ui.common import queued_engine
from chemspec.ui.predict import precedents, reagent_proposals
from chemspec.ui.predict.query_panel import Question

MAX_CHECKED = 8  # cards with a round-trip check
MAX_STORED = 500  # steps of which a session remembers opinions
Step = tuple[str, str]  # target, reactants
StoredChecks = dict[Step, tuple[Check, ...]]


def add_forward_checks(question: Question, cards: Sequence[AnswerCard], forward: Engine) -> list[AnswerCard]:
    """Return the cards with round-trip checks of the first few, ranked again.

    Where it is not sure to get the target back from the reactants alone, it is asked again with the conditions of the
    nearest precedents, or with the usual reagents of the class; and then with those that a model proposes.
    """
    stored = _stored_checks()
    heads = {_card_step(question, card): card for card in cards[:MAX_CHECKED] if card.best.valid}
    _run_forward_checks(forward, dict.fromkeys(heads, ""), stored)
    reagent_proposals.propose_reagents(question, [*heads.values()])
    for reagents in (_usual_reagents, reagent_proposals.first_proposal):
        more = {step: reagents(question, card) for step, card in heads.items() if not _best_check(stored[step]).sure}
        _run_forward_checks(forward, {step: added for step, added in more.items() if added}, stored)
    queued_engine.drop_oldest(stored, MAX_STORED)
    with_opinions = [
        replace(card, check=_best_check(stored[step]) if (step := _card_step(question, card)) in stored else None)
        for card in cards
    ]
    return rank_cards(question.task, question.smiles, with_opinions)


def check_passes(question: Question, cards: Sequence[AnswerCard]) -> tuple[int, PassCounts]:
    """Return the number of round-trip checks of these cards, and their forward passes."""
    opinions = [check for card in cards for check in _stored_checks().get(_card_step(question, card), ())]
    return len(opinions), PassCounts.total_passes(check.passes for check in opinions)


def _stored_checks() -> StoredChecks:
    stored: StoredChecks = st.session_state.setdefault("predict_checks", {})
    return stored


def _card_step(question: Question, card: AnswerCard) -> Step:
    return question.smiles, card.best.canonical


def _usual_reagents(question: Question, card: AnswerCard) -> str:
    return precedents.nearest_conditions(question, card) or (card.change.reagents if card.change else "")


def _run_forward_checks(forward: Engine, questions: dict[Step, str], stored: StoredChecks) -> None:
    """Run the forward model on the reactants of steps (target, reactants) with added reagents; store new verdicts."""
    new = {
        step: added for step, added in questions.items() if all(check.added != added for check in stored.get(step, ()))
    }
    texts = [".".join(filter(None, (reactants, added))) for (_, reactants), added in new.items()]
    results = queued_engine.decode_queries(forward, texts, FORWARD_SETTINGS) if texts else []
    for (step, added), result in zip(new.items(), results, strict=True):
        stored[step] = (*stored.get(step, ()), forward_check(step[0], result, added))


def _best_check(opinions: Sequence[Check]) -> Check:
    """Return the most probable agreeing check, else the last with a product: some reagents cannot be read."""
    return max(
        reversed(opinions), key=lambda check: (check.agrees, check.chance if check.agrees else bool(check.product))
    )
