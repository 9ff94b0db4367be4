"""Saved answers: the button that saves one, and the page Collections, to search, edit and download them."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import streamlit as st

from chemspec.chem.reactions.step_class import classify_step
from chemspec.depict.schemes import scheme_sides
from chemspec.io import spreadsheets
from chemspec.jobs.store import Documents, StoreError
from chemspec.review.suggestions import format_percent
from chemspec.ui.collect.answers import ANSWERS, MAX_CHARS, STATUSES, SavedAnswer, answer_row, find_matching
from chemspec.ui.common import escaping, nav, scheme
from chemspec.ui.common.login import is_local_only

SHOWN = 20  # drawn at once
EXAMPLE = ("OB(O)c1ccccc1.Brc1ccncc1", "c1ccc(-c2ccncc2)cc1")  # before there is an answer: reactants, product


def show_collections() -> None:
    """Draw the saved answers, or how to save the first one."""
    try:
        documents = visitor_answers()
        answers = sorted(documents.all().values(), key=lambda answer: answer.added, reverse=True)
    except StoreError as error:
        st.error(f"Collections cannot be shown: {escaping.plain_text(str(error))}")
        return
    storage = "in a file on this machine" if is_local_only() else "until this tab is closed"
    st.caption(f"Answers saved on the page Predict, {storage}.")
    if not answers:
        st.info("No saved answers yet. Make a prediction on the page Predict and press Save on an answer.")
        with st.container(border=True):
            st.html(scheme.reaction_html(*scheme_sides(*EXAMPLE, classify_step(*EXAMPLE))))
            st.caption("A saved answer keeps its drawing, conditions and percent; you add a note and a status.")
        return
    matches = _show_search(answers)
    rows = [answer_row(answer) for answer in matches]
    with st.container(horizontal=True, vertical_alignment="center"):
        count_text = f"{len(answers)} answer{'s' * (len(answers) != 1)}"
        count_text = f"{len(matches)} of " * (len(matches) < len(answers)) + count_text
        st.html(f'<div role="status">{count_text}</div>', width="stretch")
        st.download_button("CSV", spreadsheets.rows_to_csv(rows), "collections.csv", "text/csv", on_click="ignore")
    most = st.session_state.get("collect_most", SHOWN)
    for question in dict.fromkeys(answer.question for answer in matches[:most]):
        st.html(f"<h2>{escape(question)}</h2>")
        for answer in matches[:most]:
            if answer.question == question:
                _show_answer(documents, answer)
    if len(matches) > most:
        st.button("Show more", on_click=lambda: st.session_state.update(collect_most=most + SHOWN))


def _show_search(answers: Sequence[SavedAnswer]) -> list[SavedAnswer]:
    left, right = st.columns(2)
    text = left.text_input("Words", key="collect_text", placeholder="in names, notes, classes, status", max_chars=200)
    structure = right.text_input("Substructure", key="collect_structure", placeholder="SMILES or SMARTS", max_chars=500)
    try:
        return find_matching(answers, text=text, structure=structure)
    except ValueError as error:
        st.warning(f"Not searched by structure: {escaping.plain_text(str(error))}.")
        return find_matching(answers, text=text)


def _show_answer(documents: Documents[SavedAnswer], answer: SavedAnswer) -> None:
    key = f"collect_{answer.id}"
    reactants, _, product = answer.reaction.partition(">>")
    with st.container(border=True, gap="small", key=f"{key}_card"):
        change = classify_step(reactants, product) if "." not in product else None
        left, right = scheme_sides(reactants, product, change)
        drawn = scheme.reaction_html(left, right, apart=True)
        about = f"{escape(answer.label) or 'One step'} · {format_percent(answer.chance)}"
        st.html(f'<header class="cs-head"><h3>{about}</h3></header>{drawn}')
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            st.selectbox(
                "Status",
                STATUSES,
                STATUSES.index(answer.status),
                key=f"{key}_status",
                width=130,
                on_change=_update_answer,
                args=(documents, answer),
            )
            st.text_input(
                "Note",
                answer.note,
                max_chars=MAX_CHARS["note"],
                key=f"{key}_note",
                on_change=_update_answer,
                args=(documents, answer),
            )
            if st.button("Predict again", key=f"{key}_ask", type="tertiary"):
                nav.open_page("predict", task=answer.model, smi=answer.query)
            st.button("Remove", key=f"{key}_remove", type="tertiary", on_click=documents.delete, args=(answer.id,))


def _update_answer(documents: Documents[SavedAnswer], answer: SavedAnswer) -> None:
    note, status = (st.session_state[f"collect_{answer.id}_{name}"] for name in ("note", "status"))
    try:
        documents.change(answer.id, lambda stored: replace(stored, note=note, status=status))
    except StoreError as error:
        st.toast(f"Not done: {escaping.plain_text(str(error))}")


NAME = "collect_name"  # session key of the name used last


@st.dialog("Save")
def save_dialog(answer: SavedAnswer) -> None:
    """Show collection, status and note of an answer to save."""
    name = st.text_input("Collection", st.session_state.get(NAME, "My answers"), max_chars=MAX_CHARS["question"])
    status = st.selectbox("Status", STATUSES)
    note = st.text_area("Note", max_chars=MAX_CHARS["note"], height=80)
    if st.button("Save to the collection", type="primary", disabled=not name.strip()):
        st.session_state[NAME] = name
        try:
            saved = replace(answer, question=name.strip(), note=note, status=status)
            visitor_answers().save(saved.id, saved)
        except StoreError as error:
            st.error(f"Could not save: {escaping.plain_text(str(error))}", icon=None)
        else:
            st.success("Saved to Collections.")


def visitor_answers() -> Documents[SavedAnswer]:
    """Return the collections of this visitor; those of a visit to a server end with it."""
    if is_local_only():
        return ANSWERS
    if "collect_folder" not in st.session_state:
        st.session_state["collect_folder"] = tempfile.TemporaryDirectory(prefix="chemspec-")
    return replace(ANSWERS, home=Path(st.session_state["collect_folder"].name))
