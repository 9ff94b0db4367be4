"""Reagents that a model proposes for the reactions on the cards; where no such model is installed there are none."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from chemspec.chem.reagent_sets import balanced
from chemspec.evaluation.roundtrip import PROPOSE
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine
from chemspec.ui.predict.ask import Asked
from chemspec.ui.predict.verdicts import AnswerCard

Sets = tuple[tuple[str, float], ...]  # SMILES and probability, the likeliest first

SETS = 3  # of a reaction
MOST = 500  # reactions that a session remembers


def propose(asked: Asked, cards: Sequence[AnswerCard]) -> None:
    """Ask the model about the cards' reactions that it has not been asked about yet, in one batch."""
    engine = queued_engine.find("reagents") if asked.task == "retro" else None
    kept = _kept()
    lacking = [one for card in cards if card.best.valid and (one := _question(asked, card)) not in kept]
    if engine is None or not lacking:
        return
    for one, result in zip(lacking, queued_engine.decode_many(engine, lacking, PROPOSE), strict=True):
        kept[one] = _sets(result)
    queued_engine.forget(kept, MOST)


def first(asked: Asked, card: AnswerCard) -> str:
    """Return the SMILES of the reagents proposed for a card; empty if there are none."""
    return next((some for some, _ in several(asked, card)), "")


def several(asked: Asked, card: AnswerCard) -> Sets:
    """Return the likeliest sets of reagents proposed for a card."""
    return _kept().get(_question(asked, card), ())


def _sets(result: DecodeResult) -> Sets:
    found: dict[str, float] = {}
    for one in result.hypotheses:
        if one.valid:
            found.setdefault(balanced(one.canonical), one.probability)
    return tuple(found.items())[:SETS]


def _kept() -> dict[str, Sets]:
    kept: dict[str, Sets] = st.session_state.setdefault("predict_reagents", {})
    return kept


def _question(asked: Asked, card: AnswerCard) -> str:
    return f"{card.best.canonical}>>{asked.smiles}"
