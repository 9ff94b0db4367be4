"""Precedents of an answer: how many patent reactions make its change, the nearest ones, and their conditions."""

from __future__ import annotations

from functools import partial
from html import escape
from zlib import crc32

import streamlit as st

from chemspec import chem
from chemspec import precedents as known
from chemspec.chem import formats
from chemspec.chem.strategy import strategy
from chemspec.model.checkpoint import CheckpointError
from chemspec.precedents import Found
from chemspec.review.forward_check import gives_target
from chemspec.review.suggestions import AnswerCard, format_percent
from chemspec.settings import DecodeSettings
from chemspec.ui.common import queued_engine, scheme, theme
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.predict import reagent_proposals, schemes
from chemspec.ui.predict.query_panel import Question

MAX_NEAREST = 3
MAX_CONDITIONS_CHARS = 60  # characters of conditions over an arrow
LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
PROPOSED_BY_MODEL = "proposed by a model"
CHECK_SETTINGS = DecodeSettings(n=5, distinct=True)  # settings of the forward model with typed conditions


def installed_index() -> known.Precedents | None:
    """Return the installed index; None where there is none that can be used (`footnote` says why)."""
    try:
        return known.installed()
    except (ValueError, OSError):
        return None


def precedents_footnote() -> str:
    """Return which precedent index is installed, or how to build one, as one sentence of Markdown."""
    try:
        matches = known.installed()
    except (ValueError, OSError) as error:
        return f"No precedents: {plain_text(str(error))}."
    if matches is None:
        return f"No index of patent reactions is installed; `{known.BUILD_COMMAND}` makes one."
    return f"Precedents and conditions: from {len(matches):,} reactions of US patents (Lowe's text mining, CC0)."


def reaction_sides(question: Question, card: AnswerCard) -> tuple[str, str]:
    """Return reactants and product of a card."""
    query, answer = question.smiles, card.best.canonical
    return (query, answer) if question.task == "forward" else (answer, query)


def find_precedents(question: Question, card: AnswerCard) -> Found | None:
    """Return the precedents of a card's reaction; None without an index or a valid prediction."""
    index = installed_index() if card.best.valid else None
    try:
        return index.find(*reaction_sides(question, card), n=MAX_NEAREST) if index else None
    except ValueError:  # the file was changed while it was open
        return None


def nearest_conditions(question: Question, card: AnswerCard) -> str:
    """Return the SMILES of reagents recorded with the nearest precedents; empty if none are."""
    matches = find_precedents(question, card)
    return matches.conditions[0].reagents if matches and matches.conditions else ""


# --- on the card -----------------------------------------------------------------------------------


def likeliest_conditions(question: Question, card: AnswerCard) -> tuple[str, str]:
    """Return the SMILES of the conditions over the arrow, and their source; empty if there are none."""
    if reagents := nearest_conditions(question, card):
        return reagents, "from precedents"
    reagents = reagent_proposals.first_proposal(question, card)
    return reagents, PROPOSED_BY_MODEL * bool(reagents)


def conditions_over_arrow(question: Question, card: AnswerCard) -> tuple[str, str]:
    """Return the likeliest conditions in words, shortened, and their source; empty if there are none."""
    reagents, whose = likeliest_conditions(question, card)
    return _shorten_text(known.in_words(reagents)) if reagents else "", whose


def _shorten_text(text: str) -> str:
    return text if len(text) <= MAX_CONDITIONS_CHARS else text[: MAX_CONDITIONS_CHARS - 1] + "…"


def precedents_line(question: Question, card: AnswerCard) -> str:
    """Return the number of precedents, with details in a tooltip, as safe HTML."""
    matches = find_precedents(question, card)
    if matches is None:
        return ""
    count = matches.close or matches.wide
    text = (
        f"{count:,} precedent{'s' * (count > 1)}{'' if matches.close else ' of this kind'}" if count else "no precedent"
    )
    if matches.seen_by(question.task):
        text = f"this very reaction is in the training data; {text}"
    elif matches.same:
        text = f"this very reaction is in a patent; {text}"
    hint = f"{matches.in_words}, counted by the atoms that change and what they are bonded to"
    if question.task == "retro" and matches.product:
        hint += f"; the target is the product of {matches.product}"
    return f'<span title="{escape(hint, quote=True)}">{escape(text)}</span>'


# --- in the drawer -----------------------------------------------------------------------------------


def show_precedents(question: Question, card: AnswerCard, name: str) -> None:
    """Draw the nearest precedents, and the form that tries conditions."""
    matches = find_precedents(question, card)
    if question.task == "retro":
        _try_conditions(question, card, matches, f"{name}_{crc32(card.best.canonical.encode())}")
    if matches is None:
        st.caption(precedents_footnote())
    else:
        st.html(nearest_html(matches))


def nearest_html(matches: Found) -> str:
    """Return the nearest precedents as small schemes, as safe HTML."""
    if not matches.nearest:
        return f'<p class="cs-hint">{escape(matches.in_words.capitalize())}.</p>'
    rows = []
    for precedent in matches.nearest:
        left, right = schemes.scheme_sides(
            precedent.reactants, precedent.product, strategy(precedent.reactants, precedent.product)
        )
        drawn = scheme.reaction_html(left, right, dark=theme.is_dark(), over=precedent.text)
        kind = "the same reaction" if precedent.same else f"similarity {precedent.similarity:.2f}"
        facts = [kind, *([] if precedent.close else ["of the kind"]), precedent.source or "patent not known"]
        facts.append(precedent.text or "reagents not recorded")
        rows.append(f'<li>{drawn}<p class="cs-hint">{escape(" · ".join(facts))}</p></li>')
    return f'<ol class="cs-precedents" aria-label="nearest patent reactions">{"".join(rows)}</ol>'


def _try_conditions(question: Question, card: AnswerCard, matches: Found | None, key: str) -> None:
    """Draw the form that runs the forward model with chosen or typed conditions."""
    names = queued_engine.model_names("forward")
    if not names:
        return
    state, box, result_key = st.session_state, f"{key}_conditions", f"{key}_said"
    recorded = (
        [(conditions.text.translate(LOWERED), str(conditions.count)) for conditions in matches.conditions]
        if matches
        else []
    )
    reagent_proposals.propose_reagents(question, [card])
    guessed = [
        (known.in_words(reagents).translate(LOWERED), format_percent(chance))
        for reagents, chance in reagent_proposals.proposed_sets(question, card)
    ]
    if box not in state:
        state[box] = next((text for text, _ in (*recorded, *guessed)), "")
    for what, about, offered in (
        ("recorded", "Recorded with the nearest precedents (how often):", recorded),
        ("guessed", "Proposed by the reagents model (probability):", guessed),
    ):
        if not offered:
            continue
        st.caption(about)
        with st.container(horizontal=True, gap="small", key=f"{key}_{what}"):
            for number, (text, share) in enumerate(offered):
                st.button(
                    f"{plain_text(_shorten_text(text))} ({share})",
                    key=f"{key}_{what}_{number}",
                    on_click=partial(state.__setitem__, box, text),
                )
    st.text_input("Conditions", key=box, placeholder="Names or SMILES: K2CO3, DMF", max_chars=1000)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{key}_ask"):
        if st.button("Check with the forward model", key=f"{key}_with"):
            with st.spinner("Running the forward model"):
                state[result_key] = forward_opinion(names[0], card.best.canonical, state[box], question.smiles)
        if result_key in state:
            st.caption(state[result_key], width="stretch")


def forward_opinion(model: str, reactants: str, written: str, target: str) -> str:
    """Return the forward model's prediction for reactants with conditions, as one sentence of Markdown."""
    added = ""
    if written.strip():
        read = formats.read_any(written, task="forward")
        if isinstance(read, chem.Fault):
            return f"These conditions cannot be read: {plain_text(str(read))}"
        added = read.smiles
    flask = ".".join(filter(None, (reactants, added)))
    try:
        engine = queued_engine.load_engine(model)
    except (CheckpointError, ValueError) as error:
        return f"The model {plain_text(model)} cannot be used: {plain_text(str(error))}"
    result = queued_engine.decode_queries(engine, [flask], CHECK_SETTINGS)[0]
    if result.status != "ok":
        return f"The forward model cannot answer this: {plain_text(result.message)}."
    given = f"With {plain_text(known.in_words(added))}" if added else "Without reagents"
    for rank, answer in enumerate(result.hypotheses, 1):
        if answer.valid and gives_target(target, answer.canonical):
            position = "its first answer" if rank == 1 else f"its answer {rank}"
            return (
                f"{given}, the forward model gives the target as {position}, with {format_percent(answer.probability)}."
            )
    first = next((answer.canonical for answer in result.hypotheses if answer.valid), "")
    instead = f", but `{first}` ({format_percent(result.hypotheses[0].probability)})" if first else ""
    return f"{given}, the target is not among the forward model's {len(result.hypotheses)} answers{instead}."
