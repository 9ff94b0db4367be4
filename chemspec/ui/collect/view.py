"""Kept answers on a page: searched, drawn, changed, taken away as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import streamlit as st

from chemspec.chem.strategy import strategy
from chemspec.ui.collect import owner
from chemspec.ui.collect.store import LONGEST, STATUSES, Kept, Store, StoreError, matching, record
from chemspec.ui.common import nav, safe, scheme, theme
from chemspec.ui.predict import schemes
from chemspec.ui.predict.verdicts import percent

SHOWN = 20  # drawn at once


def show() -> None:
    """Draw what is kept, or what one could keep."""
    try:
        store = owner.store()
        kept = store.all()
    except StoreError as error:
        st.error(f"Collections cannot be shown: {safe.plain(str(error))}")
        return
    place = "in a file on this machine" if owner.on_disk() else "until this tab is closed; a server keeps nothing more"
    st.caption(f"Answers kept with *Keep* on the page Predict, {place}.")
    if not kept:
        st.info("Nothing is kept yet. Ask something on the page Predict and press Keep on an answer.")
        return
    found = _searched(kept)
    rows = [record(one) for one in found]
    with st.container(horizontal=True, vertical_alignment="center"):
        said = f"{len(found)} of {len(kept)} answers" if len(found) < len(kept) else f"{len(kept)} answers"
        st.html(f'<div role="status">{said}</div>', width="stretch")
        st.download_button("CSV", schemes.to_csv(rows), "collections.csv", "text/csv", on_click="ignore")
    most = st.session_state.get("collect_most", SHOWN)
    for question in dict.fromkeys(one.question for one in found[:most]):
        st.html(f"<h2>{escape(question)}</h2>")
        for one in found[:most]:
            if one.question == question:
                _answer(store, one)
    if len(found) > most:
        st.button("Show more", on_click=lambda: st.session_state.update(collect_most=most + SHOWN))


def _searched(kept: Sequence[Kept]) -> list[Kept]:
    left, middle, right = st.columns([3, 3, 2])
    text = left.text_input("Words", key="collect_text", placeholder="in names, notes, classes", max_chars=200)
    structure = middle.text_input(
        "Substructure", key="collect_structure", placeholder="SMILES or SMARTS", max_chars=500
    )
    status = right.selectbox("Status", ["", *STATUSES], format_func=lambda one: one or "any", key="collect_status")
    try:
        return matching(kept, text=text, structure=structure, status=status)
    except ValueError as error:
        st.warning(f"Not searched by structure: {safe.plain(str(error))}.")
        return matching(kept, text=text, status=status)


def _answer(store: Store, one: Kept) -> None:
    key = f"collect_{one.number}"
    reactants, _, product = one.reaction.partition(">>")
    with st.container(border=True, gap="small", key=f"{key}_card"):
        change = strategy(reactants, product) if "." not in product else None
        left, right = schemes.sides(reactants, product, change)
        drawn = scheme.reaction(left, right, dark=theme.dark(), apart=True)
        about = f"{escape(one.label) or 'One step'} · {percent(one.chance)}"
        st.html(f'<header class="cs-head"><h3>{about}</h3></header>{drawn}')
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            st.selectbox(
                "Status",
                STATUSES,
                STATUSES.index(one.status),
                key=f"{key}_status",
                width=130,
                on_change=_change,
                args=(store, one),
            )
            st.text_input(
                "Note", one.note, max_chars=LONGEST["note"], key=f"{key}_note", on_change=_change, args=(store, one)
            )
            if st.button("Ask again", key=f"{key}_ask", type="tertiary"):
                nav.go("predict", task=one.model, smi=one.query)
            st.button("Remove", key=f"{key}_remove", type="tertiary", on_click=_do, args=(store.remove, one.number))


def _change(store: Store, one: Kept) -> None:
    state, key = st.session_state, f"collect_{one.number}"
    _do(store.change, one.number, note=state[f"{key}_note"], status=state[f"{key}_status"])


def _do(action: Callable[..., None], *args: object, **more: object) -> None:
    """Do something to the store; what goes wrong is told at the next run."""
    try:
        action(*args, **more)
    except StoreError as error:
        st.toast(f"Not done: {safe.plain(str(error))}")
