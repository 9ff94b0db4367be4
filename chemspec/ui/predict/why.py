"""Why this answer: the two places where the model hesitated most, and what it would have written otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.engine.forks import Fork, find_forks
from chemspec.types import Hypothesis
from chemspec.ui.common import queued_engine, scheme, served, theme
from chemspec.ui.predict.verdicts import AnswerCard, percent

_RANKS = "predict_ranks"  # in the session: canonical SMILES -> rank of its card


def remember(shown: Sequence[AnswerCard]) -> None:
    """Keep which answers are on the page, to tell where another way leads to one of them."""
    st.session_state[_RANKS] = {one.canonical: card.rank for card in shown for one in card.members}


def popover(model: str, query: str, card: AnswerCard, *, key: str) -> None:
    """Draw the button for a card, and where it is open what it tells; nothing is computed before."""
    place = st.popover("Why?", on_change="rerun", key=key, type="tertiary")
    if place.open:
        with place:
            engine = queued_engine.engine(model)
            if isinstance(engine, served.ServedEngine):
                st.caption("A service answers here, which does not tell where it hesitated.")
                return
            st.html(told(card.best, found(engine, query, card.best), st.session_state.get(_RANKS, {})))


def found(engine: Engine, query: str, answer: Hypothesis) -> list[Fork]:
    """Return the places of doubt of an answer, remembered for this visitor."""

    def look() -> list[Fork]:
        with queued_engine.my_turn(engine):
            return find_forks(engine, query, answer)

    return queued_engine.remembered("_forks", (engine.digest, engine.dtype, query, answer.smiles), look)


def told(answer: Hypothesis, places: Sequence[Fork], ranks: Mapping[str, int]) -> str:
    """Return places of doubt as safe HTML, each with the other way drawn; `ranks` are of the answers on the page."""
    if not places:
        return '<p class="cs-hint">The model was sure of every part: no other choice leads to another molecule.</p>'
    parts = ["<p>The answer is written from left to right, a piece at a time. The model hesitated most here:</p>"]
    for fork in places:
        tokens = [*answer.tokens, "end"]
        tokens[fork.position] = f"\0{tokens[fork.position]}\1"
        text = escape("".join(tokens[:-1] if fork.position < len(tokens) - 1 else tokens))
        marked = text.replace("\0", "<mark>").replace("\1", "</mark>")
        rank = ranks.get(fork.smiles)
        where = f" answer {rank} of this page" if rank else ""
        other = _piece(fork.alternative)
        parts.append(
            f'<section class="cs-fork"><code>{marked}</code><p><b>{_piece(fork.token)}</b> '
            f"{percent(fork.probability)}, <b>{other}</b> {percent(fork.alternative_probability)}. With {other} it "
            f'would have written{where}:</p><div class="cs-scheme cs-tight">'
            f"{scheme.side(scheme.Side(fork.smiles), dark=theme.dark())}</div></section>"
        )
    return "".join(parts)


def _piece(token: str) -> str:
    return "the end" if token == "end" else escape(token)
