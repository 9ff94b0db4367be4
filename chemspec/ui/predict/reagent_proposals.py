"""Reagents proposed by a model for the reactions on the cards; none without such a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st

from chemspec.chem.reagent_sets import balance_charges
from chemspec.metrics import PassCounts
from chemspec.review.forward_check import REAGENT_SETTINGS
from chemspec.review.suggestions import AnswerCard
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine
from chemspec.ui.predict.query_panel import Question

Sets = tuple[tuple[str, float], ...]  # SMILES and probability, the likeliest first

MAX_SETS = 3  # of a reaction
MAX_STORED = 500  # reactions that a session remembers


class Proposal(NamedTuple):
    """Reagents proposed for one reaction, and the passes of the model that it took."""

    sets: Sets = ()
    passes: PassCounts = PassCounts()


def propose_reagents(question: Question, cards: Sequence[AnswerCard]) -> None:
    """Predict reagents for the cards' reactions that are not cached yet, in one batch."""
    engine = queued_engine.find_engine("reagents") if question.task == "retro" else None
    stored = _stored_proposals()
    lacking = [
        reaction for card in cards if card.best.valid and (reaction := _reaction_smiles(question, card)) not in stored
    ]
    if engine is None or not lacking:
        return
    for reaction, result in zip(lacking, queued_engine.decode_queries(engine, lacking, REAGENT_SETTINGS), strict=True):
        stored[reaction] = Proposal(_reagent_sets(result), PassCounts.of_result(result))
    queued_engine.drop_oldest(stored, MAX_STORED)


def proposal_passes(question: Question, cards: Sequence[AnswerCard]) -> tuple[int, PassCounts]:
    """Return for how many of these cards reagents were proposed, and the passes that it took."""
    made = [proposal for card in cards if (proposal := _stored_proposals().get(_reaction_smiles(question, card)))]
    return len(made), PassCounts.total_passes(proposal.passes for proposal in made)


def first_proposal(question: Question, card: AnswerCard) -> str:
    """Return the SMILES of the reagents proposed for a card; empty if there are none."""
    return next((reagents for reagents, _ in proposed_sets(question, card)), "")


def proposed_sets(question: Question, card: AnswerCard) -> Sets:
    """Return the likeliest sets of reagents proposed for a card."""
    return _stored_proposals().get(_reaction_smiles(question, card), Proposal()).sets


def _reagent_sets(result: DecodeResult) -> Sets:
    sets: dict[str, float] = {}
    for answer in result.hypotheses:
        if answer.valid:
            sets.setdefault(balance_charges(answer.canonical), answer.probability)
    return tuple(sets.items())[:MAX_SETS]


def _stored_proposals() -> dict[str, Proposal]:
    stored: dict[str, Proposal] = st.session_state.setdefault("predict_reagents", {})
    return stored


def _reaction_smiles(question: Question, card: AnswerCard) -> str:
    return f"{card.best.canonical}>>{question.smiles}"
