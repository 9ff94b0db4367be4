"""Answers as cards: a scheme, what is known about the answer, and what to do with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from math import exp
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from chemspec.chem import formats
from chemspec.chem.reaction_center import Changes, changes
from chemspec.engine.engine import Engine
from chemspec.metrics import numbers
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis, to_json
from chemspec.ui.common import draw, nav, queued_engine, scheme, theme, view3d
from chemspec.ui.common.web_files import web_file
from chemspec.ui.predict import ask
from chemspec.ui.predict.verdicts import AnswerCard, Badge, badges, cards, chance, round_trip_badge
from chemspec.ui.speed import timing
from chemspec.ui.speed.race_settings import race_against_standard

CSS = web_file("answers.css")
FOOTNOTE = (
    "Shaded: atoms that change, found by comparing structures (a heuristic). Probabilities are the model's own and not "
    "calibrated; a chance to be right, where one is told, is how often answers of such a probability were right on "
    "validation reactions. Hydrogen is left out of the count of atoms."
)
ROUND_TRIP = (
    " Round trip: the forward model is asked what forms from the proposed reactants alone, without reagents; a failure "
    "need not mean that the reaction does not work."
)
MOST_KEPT = 500  # of what a visitor's session remembers
SMALLEST = 4  # heavy atoms of a molecule worth asking about next


WAITING = Badge("wait", "… round trip: asking the forward model")


@dataclass(frozen=True)
class Slot:
    """A card on the page, and its parts that change after it is drawn."""

    asked: ask.Asked
    card: AnswerCard
    head: Any
    scheme: Any
    wide: bool

    def draw_head(self, extra: Sequence[Badge] = ()) -> None:
        """Rank, probability and badges."""
        self.head.html(head(self.asked, self.card, extra))

    def draw_scheme(self, changed: Changes | None = None) -> None:
        """Show the reaction, with the atoms that change if they are known."""
        self.scheme.html(_scheme(self, changed))

    @property
    def reaction(self) -> tuple[str, str]:
        """Reactants and product."""
        return sides(self.asked, self.card)


def sides(asked: ask.Asked, card: AnswerCard) -> tuple[str, str]:
    """Return reactants and product of a question and its answer."""
    query, answer = asked.smiles, card.best.canonical
    return (query, answer) if asked.task == "forward" else (answer, query)


# --- drawing ----------------------------------------------------------------------------------------


def show(asked: ask.Asked, result: DecodeResult) -> list[Slot]:
    """Draw the cards; what takes time is left to `highlight` and `check`."""
    drawn = cards(result)
    wide = len(drawn) if asked.task == "retro" else 1
    slots = [_card(asked, card, wide=True) for card in drawn[:wide]]
    for first in range(wide, len(drawn), 2):
        for place, card in zip(st.columns(2), drawn[first : first + 2], strict=False):
            with place:
                slots.append(_card(asked, card, wide=False))
    st.caption(FOOTNOTE + (ROUND_TRIP if asked.task == "retro" else ""))
    return slots


def _card(asked: ask.Asked, card: AnswerCard, *, wide: bool) -> Slot:
    best = card.best
    with st.container(border=True, height="content" if wide else "stretch", gap="xsmall"):
        slot = Slot(asked, card, st.empty(), st.empty(), wide)
        trip = _trips().get(best.canonical)
        slot.draw_head([round_trip_badge(trip, asked.smiles)] if asked.task == "retro" and trip else ())
        slot.draw_scheme(_changes().get(slot.reaction))
        st.code(best.canonical or best.smiles, language=None, wrap_lines=True)
        if best.valid:
            _actions(asked, card)
        st.html(tokens_html(best))
    return slot


def _trips() -> dict[str, DecodeResult]:
    """Return what the forward model said of reactants, remembered for this visitor."""
    kept: dict[str, DecodeResult] = st.session_state.setdefault("predict_trips", {})
    return kept


def _changes() -> dict[tuple[str, str], Changes | None]:
    """Atoms that change in reactions, remembered for this visitor."""
    kept: dict[tuple[str, str], Changes | None] = st.session_state.setdefault("predict_changes", {})
    return kept


def head(asked: ask.Asked, card: AnswerCard, extra: Sequence[Badge] = ()) -> str:
    """Rank, probability and badges, as safe HTML."""
    shown = "".join(
        f'<span class="cs-mark cs-{mark.kind}">{escape(mark.text)}</span>'
        for mark in (*badges(asked.task, asked.smiles, card), *extra)
    )
    odds, sure = card.best.probability, card.best.confidence
    text = f"<b>{chance(odds)}</b> model probability (uncalibrated)"
    if sure is not None:
        text = f"<b>{chance(sure)}</b> chance to be right, as measured; {chance(odds)} model probability (uncalibrated)"
    bar = 100 * min(1.0, odds if sure is None else sure)
    return (
        f'<div class="cs-head"><span class="cs-rank" aria-label="answer {card.rank}">{card.rank}</span>'
        f'<span class="cs-odds">{text}'
        f'<span class="cs-bar" aria-hidden="true"><i style="width:{bar:.1f}%"></i></span></span></div>'
        f'<div class="cs-marks">{shown}</div>'
    )


def _scheme(slot: Slot, changed: Changes | None) -> str:
    """Return the drawn reaction, or for further forward answers the product alone."""
    asked, best, dark = slot.asked, slot.card.best, theme.dark()
    if not best.valid:
        return '<p class="cs-hint">There is nothing to draw.</p>'
    reactants, product = slot.reaction
    left = scheme.Side(reactants, changed.reactant_atoms if changed else ())
    right = scheme.Side(product, changed.product_atoms if changed else ())
    if asked.task == "retro":
        parts = range(reactants.count(".") + 1)
        labels = tuple(_label(slot.card, number) for number in parts) if len(parts) > 1 else ()
        return scheme.reaction(replace(left, labels=labels), right, dark=dark)
    if slot.wide:
        return scheme.reaction(left, right, dark=dark, apart=True)
    return f'<div class="cs-scheme">{scheme.side(right, dark=dark)}</div>'


def _label(card: AnswerCard, number: int) -> str:
    return f"{card.rank}{chr(ord('a') + number % 26)}"


def tokens_html(answer: Hypothesis) -> str:
    """Return the answer token by token, each with its probability, as safe HTML that is closed until clicked."""
    cells = []
    for token, log_prob in zip((*answer.tokens, "end"), answer.token_log_probs, strict=False):
        odds = exp(log_prob)
        cells.append(
            f'<span class="cs-token" style="--doubt:{100 * (1 - odds):.0f}%"><b>{escape(token)}</b>'
            f"<i>{100 * odds:.0f}</i></span>"
        )
    return (
        '<details class="cs-tokens"><summary>Confidence, token by token</summary>'
        f'<div class="cs-strip-tokens">{"".join(cells)}</div>'
        "<p>Percent: the probability of each token after those before it, as the model sees it (uncalibrated). "
        "The darker, the less sure.</p></details>"
    )


# --- what to do with an answer ------------------------------------------------------------------------


def _actions(asked: ask.Asked, card: AnswerCard) -> None:
    smiles, name = card.best.canonical, f"predict_{card.rank}"
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for number, part in enumerate(smiles.split(".")):
            if len(part) < SMALLEST or (asked.task == "retro" and part == asked.smiles):
                continue
            what = _label(card, number) if asked.task == "retro" and "." in smiles else "this"
            st.button(
                f"What is {what} made from?",
                key=f"{name}_next_{number}",
                on_click=ask.put,
                args=(part, "retro"),
                type="tertiary",
            )
        if st.button("3-D view", key=f"{name}_3d", type="tertiary"):
            _three_d(smiles)
        files = st.popover("Save", on_change="rerun", key=f"{name}_save", type="tertiary")
    if files.open:
        with files:
            _save(asked, card)


@st.dialog("3-D view", width="medium")
def _three_d(smiles: str) -> None:
    parts = sorted(set(smiles.split(".")), key=lambda part: -len(part))
    part = parts[0]
    if len(parts) > 1:
        part = st.selectbox("Molecule", parts)
    view3d.show(part, height=360, key="predict_3d")
    st.caption("One conformer from RDKit's force field, not a prediction of the model.")


def _save(asked: ask.Asked, card: AnswerCard) -> None:
    smiles, name = card.best.canonical, f"answer-{card.rank}"
    left, right = sides(asked, card)
    _file("SVG", draw.molecule(smiles, width=-1, height=-1), f"{name}.svg", "image/svg+xml")
    _file("PNG", formats.to_png(smiles), f"{name}.png", "image/png")
    _file("SDF", formats.to_sdf([row(card)]), f"{name}.sdf", "chemical/x-mdl-sdfile")
    _file("RXN, the reaction", formats.to_rxn(left, right), f"{name}.rxn", "chemical/x-mdl-rxnfile")
    _file("CDXML, for ChemDraw", formats.to_cdxml(smiles), f"{name}.cdxml", "chemical/x-cdxml")


def _save_all(asked: ask.Asked, result: DecodeResult) -> None:
    base = (st.context.url or "").split("?")[0]
    st.caption("A link to this question")
    st.code(f"{base}?{urlencode({'task': asked.model, 'smi': asked.smiles})}", language=None)
    rows = [row(card) for card in cards(result) if card.best.valid]
    _file("CSV, all answers", formats.to_csv([result]), "answers.csv", "text/csv")
    _file("SDF, all answers", formats.to_sdf(rows), "answers.sdf", "chemical/x-mdl-sdfile")
    _file("JSON, answers and every pass", to_json(result), "answers.json", "application/json")


def _file(label: str, content: str | bytes, name: str, mime: str) -> None:
    if content:
        st.download_button(label, content, name, mime, key=f"predict_file_{name}", on_click="ignore", width="stretch")


def row(card: AnswerCard) -> dict[str, object]:
    """Return an answer as a record of an SDF."""
    sure = card.best.confidence
    return {
        "smiles": card.best.canonical,
        "rank": card.rank,
        "model_probability_uncalibrated": f"{card.best.probability:.6g}",
        "log_prob": f"{card.best.log_prob:.6f}",
        **({} if sure is None else {"confidence": f"{sure:.6g}"}),
    }


def summary(asked: ask.Asked, result: DecodeResult) -> None:
    """Say what speculation did for the answers, and offer to race it against the standard way."""
    counts = numbers([result.trace])
    told = f"{counts.emitted} tokens in {timing.passes(counts.passes)} ({counts.tokens_per_pass:.1f} per pass)"
    exact = result.trace.settings.get("exactness")  # traces of older files say nothing
    told = "; ".join(filter(None, [f"{told}, {timing.ms(1000 * counts.seconds)}", exact]))
    st.html(f'<div class="cs-strip" role="status">{told}</div>')
    about = "Race this question, with drafts and without, on the page Speed"
    if st.button("Measure the saving", key="predict_measure", type="tertiary", help=about):
        race_against_standard(asked.settings)
        nav.go("speed", task=asked.model, smi=asked.smiles)


def toolbar(asked: ask.Asked, result: DecodeResult) -> None:
    """Show what concerns all answers: how they were made, files, the link."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if st.button("How was this made?", key="predict_step"):
            nav.go("step", task=asked.model, smi=asked.smiles)
        files = st.popover("Save or share", on_change="rerun", key="predict_save")
    if files.open:
        with files:
            _save_all(asked, result)


# --- afterwards -----------------------------------------------------------------------------------------


def highlight(slots: Sequence[Slot]) -> None:
    """Draw the cards' schemes again, with the atoms that change."""
    kept = _changes()
    for slot in slots:
        if slot.card.best.valid and slot.reaction not in kept:
            kept[slot.reaction] = changes(*slot.reaction)
            slot.draw_scheme(kept[slot.reaction])
            _trim(kept)


def check(slots: Sequence[Slot], forward: Engine) -> None:
    """Ask the forward model what comes of each set of reactants, and say so on its card."""
    kept = _trips()
    left = [slot for slot in slots if slot.card.best.valid and slot.card.best.canonical not in kept]
    for slot in left:
        slot.draw_head([WAITING])
    for slot in left:

        def report(_: str, slot: Slot = slot) -> None:
            slot.draw_head([WAITING])  # a Streamlit call: here a click may end this

        reactants = slot.card.best.canonical
        kept[reactants] = queued_engine.decode(
            forward, reactants, DecodeSettings(decoder="greedy", n=1), report=report, patient=True
        )
        slot.draw_head([round_trip_badge(kept[reactants], slot.asked.smiles)])
        _trim(kept)


def _trim(kept: dict[Any, Any]) -> None:
    while len(kept) > MOST_KEPT:
        kept.pop(next(iter(kept)))
