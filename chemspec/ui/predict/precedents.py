"""Precedents of an answer: how many patent reactions make its change, the nearest ones, and their conditions."""

from __future__ import annotations

from functools import partial
from html import escape
from zlib import crc32

import streamlit as st

from chemspec import chem
from chemspec import precedents as known
from chemspec.chem import formats
from chemspec.chem.names.short_names import without_subscripts
from chemspec.chem.strategy import strategy
from chemspec.depict.schemes import scheme_sides
from chemspec.model.checkpoint import CheckpointError
from chemspec.precedents import Found
from chemspec.review.forward_check import gives_target
from chemspec.review.suggestions import Suggestion, format_percent
from chemspec.settings import DecodeSettings
from chemspec.ui.common import queued_engine, scheme
from chemspec.ui.common.escaping import plain_text
from chemspec.ui.predict import reviewing

MAX_CONDITIONS_CHARS = 60  # characters of conditions over an arrow
CHECK_SETTINGS = DecodeSettings(n=5, distinct=True)  # settings of the forward model with typed conditions


def precedents_footnote() -> str:
    """Return which precedent index is installed, or how to build one, as one sentence of Markdown."""
    try:
        matches = known.installed()
    except (ValueError, OSError) as error:
        return f"No precedents: {plain_text(str(error))}."
    if matches is None:
        return f"No index of patent reactions is installed; `{known.BUILD_COMMAND}` makes one."
    return f"Precedents and conditions: from {len(matches):,} reactions of US patents (Lowe's text mining, CC0)."


# --- on the card -----------------------------------------------------------------------------------


def conditions_over_arrow(card: Suggestion) -> tuple[str, str]:
    """Return the likeliest conditions in words, shortened, and their source; empty if there are none."""
    reagents, source = card.reagents
    return _shorten_text(known.in_words(reagents)) if reagents else "", source


def _shorten_text(text: str) -> str:
    return text if len(text) <= MAX_CONDITIONS_CHARS else text[: MAX_CONDITIONS_CHARS - 1] + "…"


def precedents_line(card: Suggestion) -> str:
    """Return the number of precedents, with details in a tooltip, as safe HTML."""
    matches = card.precedents
    if matches is None:
        return ""
    count = matches.close or matches.wide
    text = (
        f"{count:,} precedent{'s' * (count > 1)}{'' if matches.close else ' of this kind'}"
        if count
        else "not in the index"
    )
    if matches.seen_by(card.task):
        text = f"this very reaction is in the training data; {text}"
    elif matches.same:
        text = f"this very reaction is in a patent; {text}"
    hint = f"{matches.in_words}, counted by the atoms that change and what they are bonded to"
    if card.task == "retro" and matches.product:
        hint += f"; the target is the product of {matches.product}"
    return f'<span title="{escape(hint, quote=True)}">{escape(text)}</span>'


# --- in the drawer -----------------------------------------------------------------------------------


def show_precedents(card: Suggestion, name: str) -> None:
    """Draw the nearest precedents, and the form that tries conditions."""
    matches = card.precedents
    if card.task == "retro":
        _try_conditions(card, f"{name}_{crc32(card.best.canonical.encode())}")
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
        left, right = scheme_sides(
            precedent.reactants, precedent.product, strategy(precedent.reactants, precedent.product)
        )
        drawn = scheme.reaction_html(left, right, over=precedent.text)
        kind = "the same reaction" if precedent.same else f"similarity {precedent.similarity:.2f}"
        facts = [kind, *([] if precedent.close else ["of the kind"]), precedent.source or "patent not known"]
        facts.append(precedent.text or "reagents not recorded")
        rows.append(f'<li>{drawn}<p class="cs-hint">{escape(" · ".join(facts))}</p></li>')
    return f'<ol class="cs-precedents" aria-label="nearest patent reactions">{"".join(rows)}</ol>'


def _try_conditions(card: Suggestion, key: str) -> None:
    """Draw the form that runs the forward model with chosen or typed conditions."""
    names = queued_engine.model_names("forward")
    if not names:
        return
    state, box, result_key = st.session_state, f"{key}_conditions", f"{key}_said"
    recorded = (
        [(without_subscripts(conditions.text), str(conditions.count)) for conditions in card.precedents.conditions]
        if card.precedents
        else []
    )
    checker = reviewing.session_checker()
    checker.propose([card.reaction])
    guessed = [
        (without_subscripts(known.in_words(reagents)), format_percent(chance))
        for reagents, chance in checker.proposed_sets(card.reaction) or ()
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
                state[result_key] = forward_opinion(names[0], card.best.canonical, state[box], card.query)
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
