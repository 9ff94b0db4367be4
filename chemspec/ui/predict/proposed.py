"""Reagents that a model proposes for the reactions on the cards; where no such model is installed there are none."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from chemspec.chem.reagent_sets import balanced
from chemspec.evaluation.roundtrip import HOW
from chemspec.settings import DecodeSettings
from chemspec.ui.common import queued_engine
from chemspec.ui.predict.ask import Asked
from chemspec.ui.predict.verdicts import AnswerCard

SEVERAL = DecodeSettings(n=3, distinct=True)
MOST = 500  # reactions that a session remembers


def propose(asked: Asked, cards: Sequence[AnswerCard]) -> None:
    """Ask the model about the cards' reactions that it has not been asked about yet, in one batch."""
    engine = queued_engine.find("reagents") if asked.task == "retro" else None
    kept = _kept()
    lacking = [one for card in cards if card.best.valid and (one := _question(asked, card)) not in kept]
    if engine is None or not lacking:
        return
    for one, result in zip(lacking, queued_engine.decode_many(engine, lacking, HOW), strict=True):
        kept[one] = next((balanced(answer.canonical) for answer in result.hypotheses if answer.valid), "")
    queued_engine.forget(kept, MOST)


def first(asked: Asked, card: AnswerCard) -> str:
    """Return the SMILES of the reagents proposed for a card; empty if there are none."""
    return _kept().get(_question(asked, card), "")


def several(asked: Asked, card: AnswerCard) -> tuple[tuple[str, float], ...]:
    """Return sets of reagents for a card with their probabilities, the likeliest first; asked when they are wanted."""
    engine = queued_engine.find("reagents")
    if engine is None:
        return ()
    found = queued_engine.answer(engine, _question(asked, card), SEVERAL)
    return tuple((balanced(one.canonical), one.probability) for one in found.hypotheses if one.valid)


def _kept() -> dict[str, str]:
    kept: dict[str, str] = st.session_state.setdefault("predict_reagents", {})
    return kept


def _question(asked: Asked, card: AnswerCard) -> str:
    return f"{card.best.canonical}>>{asked.smiles}"
