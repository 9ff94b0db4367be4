"""Patent reactions beside an answer: how many make its change, the nearest drawn, their conditions to try."""

from __future__ import annotations

from functools import partial
from html import escape
from zlib import crc32

import streamlit as st

from chemspec import chem
from chemspec import precedents as known
from chemspec.chem import formats
from chemspec.chem.strategy import strategy
from chemspec.evaluation.roundtrip import gives_target
from chemspec.model.checkpoint import CheckpointError
from chemspec.precedents import Found
from chemspec.settings import DecodeSettings
from chemspec.ui.common import queued_engine, scheme, theme
from chemspec.ui.common.safe import plain
from chemspec.ui.predict import proposed, schemes
from chemspec.ui.predict.ask import Asked
from chemspec.ui.predict.verdicts import AnswerCard, percent

NEAREST = 3
LONGEST = 60  # characters of conditions over an arrow
LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
PROPOSED = "proposed by a model"
WITH = DecodeSettings(n=5, distinct=True)  # what the forward model is asked with conditions


def index() -> known.Precedents | None:
    """Return the installed index; None where there is none that can be used (`footnote` says why)."""
    try:
        return known.installed()
    except (ValueError, OSError):
        return None


def footnote() -> str:
    """Return what precedents were looked for in, or how to get some, as one sentence of Markdown."""
    try:
        found = known.installed()
    except (ValueError, OSError) as error:
        return f"No precedents: {plain(str(error))}."
    if found is None:
        return f"No index of patent reactions is installed; `{known.BUILD_COMMAND}` makes one."
    return f"Precedents and conditions: from {len(found):,} reactions of US patents (Lowe's text mining, CC0)."


def sides(asked: Asked, card: AnswerCard) -> tuple[str, str]:
    """Return reactants and product of a card."""
    query, answer = asked.smiles, card.best.canonical
    return (query, answer) if asked.task == "forward" else (answer, query)


def find(asked: Asked, card: AnswerCard) -> Found | None:
    """Return what is known of a card's reaction; None without an index, or where nothing was answered."""
    place = index() if card.best.valid else None
    try:
        return place.find(*sides(asked, card), n=NEAREST) if place else None
    except ValueError:  # the file was changed while it was open
        return None


def conditions(asked: Asked, card: AnswerCard) -> str:
    """Return the SMILES of reagents recorded with the nearest precedents; empty if none are."""
    found = find(asked, card)
    return found.conditions[0].reagents if found and found.conditions else ""


# --- on the card -----------------------------------------------------------------------------------


def likeliest(asked: Asked, card: AnswerCard) -> tuple[str, str]:
    """Return the SMILES of the conditions over the arrow, and whose they are; empty if there are none."""
    if reagents := conditions(asked, card):
        return reagents, "from precedents"
    reagents = proposed.first(asked, card)
    return reagents, PROPOSED * bool(reagents)


def over_arrow(asked: Asked, card: AnswerCard) -> tuple[str, str]:
    """Return the likeliest conditions in words, cut if they are long, and whose they are; empty if there are none."""
    reagents, whose = likeliest(asked, card)
    return _cut(known.in_words(reagents)) if reagents else "", whose


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def line(asked: Asked, card: AnswerCard) -> str:
    """Return how often the change was made, in few words, more of them in a hint, as safe HTML."""
    found = find(asked, card)
    if found is None:
        return ""
    said = _counted(found)
    if found.seen_by(asked.task):
        said = f"this very reaction is in the training data; {said}"
    elif found.same:
        said = f"this very reaction is in a patent; {said}"
    hint = f"{found.in_words}, counted by the atoms that change and what they are bonded to"
    if asked.task == "retro" and found.product:
        hint += f"; the target is the product of {found.product}"
    return f'<span title="{escape(hint, quote=True)}">{escape(said)}</span>'


def _counted(found: Found) -> str:
    if not found.wide:
        return "no precedent"
    count = found.close or found.wide
    return f"{count:,} precedent{'s' * (count > 1)}{'' if found.close else ' of this kind'}"


# --- in the drawer -----------------------------------------------------------------------------------


def drawer(asked: Asked, card: AnswerCard, name: str) -> None:
    """Draw the nearest precedents, and let conditions be tried."""
    found = find(asked, card)
    if asked.task == "retro":
        _try(asked, card, found, f"{name}_{crc32(card.best.canonical.encode())}")
    if found is None:
        st.caption(footnote())
    else:
        st.html(nearest(found))


def nearest(found: Found) -> str:
    """Return the nearest precedents as small schemes, as safe HTML."""
    if not found.nearest:
        return f'<p class="cs-hint">{escape(found.in_words.capitalize())}.</p>'
    rows = []
    for one in found.nearest:
        left, right = schemes.sides(one.reactants, one.product, strategy(one.reactants, one.product))
        drawn = scheme.reaction(left, right, dark=theme.dark(), over=one.text)
        kind = "the same reaction" if one.same else f"similarity {one.similarity:.2f}"
        told = [kind, *([] if one.close else ["of the kind"]), one.source or "patent not known"]
        told.append(one.text or "reagents not recorded")
        rows.append(f'<li>{drawn}<p class="cs-hint">{escape(" · ".join(told))}</p></li>')
    return f'<ol class="cs-precedents" aria-label="nearest patent reactions">{"".join(rows)}</ol>'


def _try(asked: Asked, card: AnswerCard, found: Found | None, key: str) -> None:
    """Let a visitor choose or write conditions, and ask the forward model with them."""
    names = queued_engine.models("forward")
    if not names:
        return
    state, box, said = st.session_state, f"{key}_conditions", f"{key}_said"
    recorded = [(one.text.translate(LOWERED), str(one.count)) for one in found.conditions] if found else []
    proposed.propose(asked, [card])
    guessed = [
        (known.in_words(some).translate(LOWERED), percent(chance)) for some, chance in proposed.several(asked, card)
    ]
    if box not in state:
        state[box] = next((text for text, _ in (*recorded, *guessed)), "")
    for what, about, offered in (
        ("recorded", "Recorded with the nearest whose reagents are known (how often):", recorded),
        ("guessed", "Proposed by the model of reagents (its probability):", guessed),
    ):
        if not offered:
            continue
        st.caption(about)
        with st.container(horizontal=True, gap="small", key=f"{key}_{what}"):
            for number, (text, told) in enumerate(offered):
                st.button(
                    f"{plain(_cut(text))} ({told})",
                    key=f"{key}_{what}_{number}",
                    on_click=partial(state.__setitem__, box, text),
                )
    st.text_input("Conditions", key=box, placeholder="Names or SMILES: K2CO3, DMF", max_chars=1000)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{key}_ask"):
        if st.button("Ask the forward model with these", key=f"{key}_with"):
            with st.spinner("Asking the forward model"):
                state[said] = opinion(names[0], card.best.canonical, state[box], asked.smiles)
        if said in state:
            st.caption(state[said], width="stretch")


def opinion(model: str, reactants: str, written: str, target: str) -> str:
    """Return what a forward model makes of reactants with conditions, as one sentence of Markdown.

    Args:
        model: its name.
        reactants: SMILES.
        written: names or SMILES of reagents; may be empty.
        target: what ought to form.
    """
    added = ""
    if written.strip():
        read = formats.read_any(written, task="forward")
        if isinstance(read, chem.Fault):
            return f"These conditions cannot be read: {plain(str(read))}"
        added = read.smiles
    flask = ".".join(filter(None, (reactants, added)))
    try:
        engine = queued_engine.engine(model)
    except (CheckpointError, ValueError) as error:
        return f"The model {plain(model)} cannot be used: {plain(str(error))}"
    result = queued_engine.decode_many(engine, [flask], WITH)[0]
    if result.status != "ok":
        return f"The forward model cannot answer this: {plain(result.message)}."
    given = f"With {plain(known.in_words(added))}" if added else "Without reagents"
    for rank, one in enumerate(result.hypotheses, 1):
        if one.valid and gives_target(target, one.canonical):
            place = "its first answer" if rank == 1 else f"its answer {rank}"
            return f"{given}, the forward model gives the target as {place}, with {percent(one.probability)}."
    first = next((one.canonical for one in result.hypotheses if one.valid), "")
    instead = f", but `{first}` ({percent(result.hypotheses[0].probability)})" if first else ""
    return f"{given}, the target is not among the forward model's {len(result.hypotheses)} answers{instead}."
