"""Ask the forward model about proposed precursors, alone and with reagents; a session remembers what it said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.evaluation.roundtrip import FORWARD_SETTINGS
from chemspec.metrics import PassCounts
from chemspec.ui.common import queued_engine
from chemspec.ui.predict import precedents, proposed
from chemspec.ui.predict.ask import Asked
from chemspec.ui.predict.verdicts import AnswerCard, Check, opinion, order

CHECKED = 8  # ideas that the forward model is asked about
MOST = 500  # steps of which a session remembers opinions
Step = tuple[str, str]  # target, reactants
Opinions = dict[Step, tuple[Check, ...]]


def add_forward_checks(asked: Asked, found: Sequence[AnswerCard], forward: Engine) -> list[AnswerCard]:
    """Return the cards with the forward model's opinion of the first few, in their new order.

    Where it is not sure to get the target back from the reactants alone, it is asked again with the conditions of the
    nearest precedents, or with the usual reagents of the class; and then with those that a model proposes.
    """
    kept = _kept()
    heads = _heads(asked, found)
    _ask_forward(forward, dict.fromkeys(heads, ""), kept)
    proposed.propose(asked, [*heads.values()])
    for reagents in (_usual, proposed.first):
        more = {step: reagents(asked, card) for step, card in heads.items() if not _best(kept[step]).sure}
        _ask_forward(forward, {step: added for step, added in more.items() if added}, kept)
    queued_engine.forget(kept, MOST)
    with_opinions = [
        replace(card, check=_best(kept[step]) if (step := _step(asked, card)) in kept else None) for card in found
    ]
    return order(asked.task, asked.smiles, with_opinions)


def passes(asked: Asked, found: Sequence[AnswerCard]) -> tuple[int, PassCounts]:
    """Return how often the forward model was asked about these cards, and the passes that it took."""
    opinions = [one for card in found for one in _kept().get(_step(asked, card), ())]
    return len(opinions), PassCounts.total(one.passes for one in opinions)


def _kept() -> Opinions:
    kept: Opinions = st.session_state.setdefault("predict_checks", {})
    return kept


def _step(asked: Asked, card: AnswerCard) -> Step:
    return asked.smiles, card.best.canonical


def _heads(asked: Asked, found: Sequence[AnswerCard]) -> dict[Step, AnswerCard]:
    return {_step(asked, card): card for card in found[:CHECKED] if card.best.valid}


def _usual(asked: Asked, card: AnswerCard) -> str:
    return precedents.conditions(asked, card) or (card.change.reagents if card.change else "")


def _ask_forward(forward: Engine, questions: dict[Step, str], kept: Opinions) -> None:
    """Ask, once, what forms from the reactants of steps (target, reactants) with added reagents; keep the opinions."""
    new = {step: added for step, added in questions.items() if all(one.added != added for one in kept.get(step, ()))}
    texts = [".".join(filter(None, (reactants, added))) for (_, reactants), added in new.items()]
    results = queued_engine.decode_many(forward, texts, FORWARD_SETTINGS) if texts else []
    for (step, added), result in zip(new.items(), results, strict=True):
        kept[step] = (*kept.get(step, ()), opinion(step[0], result, added))


def _best(opinions: Sequence[Check]) -> Check:
    """Return the surest that agrees; else the last with a product: reagents may hold what the model cannot read."""
    return max(reversed(opinions), key=lambda one: (one.agrees, one.chance if one.agrees else bool(one.product)))
