"""Speculative decoding shown on the card of the greedy prediction: text, passes and atoms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from chemspec.metrics import PassCounts
from chemspec.review.suggestions import Suggestion
from chemspec.types import DecodeResult
from chemspec.ui.predict import atom_colours, token_origins
from chemspec.ui.predict.first_answer import card_of_greedy_answer, has_accepted_drafts
from chemspec.ui.predict.query_panel import Question
from chemspec.ui.step.trace_view import TraceView


@dataclass(frozen=True)
class Picture:
    """A greedy run with accepted drafts, and the card that shows it: its rank, its canonical SMILES."""

    rank: int
    canonical: str
    view: TraceView
    passes: PassCounts


def picture_of_greedy(first: DecodeResult | None, cards: Sequence[Suggestion]) -> Picture | None:
    """Return the greedy run to show; None where no card has its prediction, or no draft was accepted."""
    card = card_of_greedy_answer(first, cards)
    if (
        first is None
        or card is None
        or not has_accepted_drafts(first)
        or (view := token_origins.greedy_view(first)) is None
    ):
        return None
    return Picture(card.rank, card.best.canonical, view, PassCounts.of_result(first))


def show_picture(drawn: Picture, question: Question, name: str, *, still: bool) -> None:
    """Draw the text of the answer run by run, with a button that copies it, and below it the passes."""
    if still:
        st.html(token_origins.runs_html(drawn.view) + _passes_line(drawn, token_origins.LEGEND))
        return
    with st.container(horizontal=True, gap=None, key=f"{name}_text"):
        st.html(token_origins.runs_html(drawn.view), width="stretch")
        st.code(drawn.canonical, language=None, width="content")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{name}_tell"):
        atom_colours.show_colour_toggle()
        st.html(_passes_line(drawn), width="stretch")
    if atom_colours.colours_enabled():
        st.html(token_origins.origins_html(drawn.view, question.task))


def _passes_line(drawn: Picture, legend: str = "") -> str:
    text = f"{token_origins.passes_html(drawn.view)}<span>{token_origins.saving_html(drawn.passes)}</span>{legend}"
    return f'<div class="cs-tell">{text}</div>'


def store_colours(question: Question, drawn: Picture | None) -> bool:
    """Store the colours of the query's drawing; return whether the panel has to be drawn again."""
    if drawn is None:
        return atom_colours.store_query_colours(question.smiles, None, 0)
    return atom_colours.store_query_colours(
        question.smiles, token_origins.query_colouring(drawn.view, question.smiles), drawn.rank
    )
