"""The picture of speculative decoding on the card that shows the greedy answer: its text, its passes, its atoms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from chemspec import chem
from chemspec.metrics import PassCounts
from chemspec.types import DecodeResult
from chemspec.ui.predict import atom_colours, origins
from chemspec.ui.predict.ask import Asked
from chemspec.ui.predict.first_answer import card_of, drafted, greedy
from chemspec.ui.predict.verdicts import AnswerCard
from chemspec.ui.speed import timing, trials
from chemspec.ui.step.trace_view import TraceView


@dataclass(frozen=True)
class Picture:
    """A greedy run with accepted drafts, and the card that shows it: its rank, its canonical SMILES."""

    rank: int
    canonical: str
    view: TraceView
    passes: PassCounts


def of(first: DecodeResult | None, cards: Sequence[AnswerCard]) -> Picture | None:
    """Return what to show of the greedy run; None where no card has its answer, or where it accepted no draft."""
    card = card_of(first, cards)
    if first is None or card is None or not drafted(first) or (view := origins.read(first)) is None:
        return None
    return Picture(card.rank, card.best.canonical, view, PassCounts.of_result(first))


def show(drawn: Picture, asked: Asked, name: str, *, still: bool) -> None:
    """Draw the text of the answer run by run, with a button that copies it, and below it the passes."""
    if still:
        st.html(origins.strip(drawn.view) + _tell(drawn, None, legend=origins.LEGEND))
        return
    with st.container(horizontal=True, gap=None, key=f"{name}_text"):
        st.html(origins.strip(drawn.view), width="stretch")
        st.code(drawn.canonical, language=None, width="content")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{name}_tell"):
        atom_colours.chip()
        st.html(_tell(drawn, _measured(asked)), width="stretch")
    if atom_colours.wanted():
        st.html(origins.sentence(drawn.view, asked.task))


def _measured(asked: Asked) -> tuple[float, float] | None:
    """Return milliseconds with and without drafts, where this visitor has raced this search on a quiet machine."""
    trial, way = st.session_state.get("speed_race"), greedy(asked.settings)
    if not isinstance(trial, trials.Trial) or way is None or trial.model != asked.model:
        return None
    same = chem.canonical(trial.query) == chem.canonical(asked.smiles)
    lanes = timing.rows(trial.settings, trial.good) if same and trial.quiet and trial.done == trial.wanted else []
    return next((pair for lane in lanes if (pair := timing.gain(lane, lanes)) and timing.same_way(lane, way)), None)


def _tell(drawn: Picture, times: tuple[float, float] | None, *, legend: str = "") -> str:
    said = f"{origins.bars(drawn.view)}<span>{origins.saving(drawn.passes, times)}</span>{legend}"
    return f'<div class="cs-tell">{said}</div>'


def remember(asked: Asked, drawn: Picture | None) -> bool:
    """Keep the colours for the drawing of the query; return whether the panel has to be drawn again."""
    if drawn is None:
        return atom_colours.remember(asked.smiles, None, 0)
    return atom_colours.remember(asked.smiles, origins.on_query(drawn.view, asked.smiles), drawn.rank)
