"""Reagents that a model proposes for the reactions on the cards; where no such model is installed there are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st

from chemspec.chem.reagent_sets import balance_charges
from chemspec.evaluation.roundtrip import REAGENT_SETTINGS
from chemspec.metrics import PassCounts
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine
from chemspec.ui.predict.ask import Asked
from chemspec.ui.predict.verdicts import AnswerCard

Sets = tuple[tuple[str, float], ...]  # SMILES and probability, the likeliest first

SETS = 3  # of a reaction
MOST = 500  # reactions that a session remembers


class Proposal(NamedTuple):
    """Reagents proposed for one reaction, and the passes of the model that it took."""

    sets: Sets = ()
    passes: PassCounts = PassCounts()


def propose(asked: Asked, cards: Sequence[AnswerCard]) -> None:
    """Ask the model about the cards' reactions that it has not been asked about yet, in one batch."""
    engine = queued_engine.find("reagents") if asked.task == "retro" else None
    kept = _kept()
    lacking = [one for card in cards if card.best.valid and (one := _question(asked, card)) not in kept]
    if engine is None or not lacking:
        return
    for one, result in zip(lacking, queued_engine.decode_many(engine, lacking, REAGENT_SETTINGS), strict=True):
        kept[one] = Proposal(_sets(result), PassCounts.of(result))
    queued_engine.forget(kept, MOST)


def passes(asked: Asked, cards: Sequence[AnswerCard]) -> tuple[int, PassCounts]:
    """Return for how many of these cards reagents were proposed, and the passes that it took."""
    made = [one for card in cards if (one := _kept().get(_question(asked, card)))]
    return len(made), PassCounts.total(one.passes for one in made)


def first(asked: Asked, card: AnswerCard) -> str:
    """Return the SMILES of the reagents proposed for a card; empty if there are none."""
    return next((some for some, _ in several(asked, card)), "")


def several(asked: Asked, card: AnswerCard) -> Sets:
    """Return the likeliest sets of reagents proposed for a card."""
    return _kept().get(_question(asked, card), Proposal()).sets


def _sets(result: DecodeResult) -> Sets:
    found: dict[str, float] = {}
    for one in result.hypotheses:
        if one.valid:
            found.setdefault(balance_charges(one.canonical), one.probability)
    return tuple(found.items())[:SETS]


def _kept() -> dict[str, Proposal]:
    kept: dict[str, Proposal] = st.session_state.setdefault("predict_reagents", {})
    return kept


def _question(asked: Asked, card: AnswerCard) -> str:
    return f"{card.best.canonical}>>{asked.smiles}"
