"""The query panel: task, query box, sketcher, upload, options; and the link that holds the query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Any
from zlib import crc32

import streamlit as st

from chemspec import chem, tasks
from chemspec.chem import formats
from chemspec.chem.names.short_names import split_drawn_and_named
from chemspec.settings import DecodeSettings, Task
from chemspec.ui.common import draw, escaping, history, query_box, queued_engine, sketcher, stock_menu, vendor, widgets
from chemspec.ui.common.options import show_options
from chemspec.ui.common.query_box import QueryText, Read
from chemspec.ui.predict import atom_colours, guide_form, query_preview

TASKS: tuple[Task, ...] = tasks.about_molecules()
FORMATS = "Names, SMILES, InChI, molfile, SDF, RXN, CDXML or KET; a list with dots, commas, + or lines"
ENDINGS = ["smi", "smiles", "txt", "inchi", "mol", "sdf", "rxn", "rdf", "cdxml", "ket"]
LONGEST = 34  # characters of a SMILES on a button
BOX = QueryText("predict")
BUTTON_LABELS: dict[Task, str] = {"forward": "Predict product", "retro": "Find precursors"}


@dataclass(frozen=True)
class Question:
    """A query with model and settings.

    Attributes:
        model: its name.
        smiles: the query, its molecules in the order in which they were typed.
        notes: what was changed in reading it.
        cards: answers, or ideas, to show at first.
        expected: the other side, where a whole reaction was typed.
    """

    model: str
    task: Task
    smiles: str
    settings: DecodeSettings
    notes: tuple[str, ...] = ()
    cards: int = 5
    expected: str = ""

    @property
    def key(self) -> str:
        """A text that differs between questions: a menu with the same key would stay open over the next answers."""
        return f"{crc32(f'{self.smiles} {self.settings.guide}'.encode()):x}"

    @property
    def text(self) -> str:
        """The text of the same query: the molecules, or the whole reaction."""
        return _question_text(self.task, self.smiles, self.expected)


def submit_text(text: str, task: Task | None = None, *, model: str = "") -> None:
    """Put a text into the box and predict; a callback for buttons."""
    state = st.session_state
    if task is not None:
        state.predict_task = task
        state.predict_model = model
    BOX.set_text(text)
    state.predict_want = True


def show_query_panel() -> tuple[Question | None, bool, Any]:
    """Draw the query panel.

    Returns:
        the question, once there is one; whether the box holds another one by now; the row of buttons, for more.
    """
    _follow_link()
    state = st.session_state
    task = widgets.segmented_choice(
        "Question",
        TASKS,
        key="predict_task",
        hidden=True,
        format_func=query_box.TASK_LABELS.__getitem__,
        on_change=_clear_question,
    )
    text, read = BOX.show_box(task, on_typed=_text_typed, on_submit=_text_submitted, on_navigate=_navigated)
    hint = st.container(gap=None)
    asking = BUTTON_LABELS[task]
    st.button(
        asking, type="primary", shortcut="Ctrl+Enter", on_click=_request_prediction, width="stretch", key="predict_ask"
    )
    row = st.container(horizontal=True, vertical_alignment="center", gap="small", key="predict_tools")
    with row:
        if st.button("Draw", key="predict_pen", type="tertiary"):
            state.predict_drawn = None
            _sketch_dialog(text, read)
        _show_upload(task)
        model, settings, cards = show_options(task)
        if task == "retro":
            stock_menu.show_stock_menu()
    if state.pop("predict_want", False):
        _accept_query(model, read)
    submitted: tuple[str, str, tuple[str, ...], str] | None = state.get("predict_asked")
    stands = submitted is not None and _typed_sides(read) == (submitted[1], submitted[3])
    _show_hint(hint, text, read, task, stands=stands)
    if task == "retro" and isinstance(read, formats.Input) and query_preview.has_bonds_to_mark(read.ordered):
        with row:
            guide_form.show_class_menu(read.ordered)
    if submitted is None or model == "":
        return None, False, row
    if task == "retro":
        settings = replace(settings, guide=str(guide_form.current_guide(submitted[1])))
    cards = max(cards, state.get("predict_cards", 0))
    return Question(model, task, submitted[1], settings, submitted[2], cards, submitted[3]), not stands, row


# --- the link: ?task=retro&smi=... -----------------------------------------------------------------


def _follow_link() -> None:
    """Read the address after a link was followed, or after the browser's back button."""
    state = st.session_state
    link = query_box.linked_query()
    arrived = state.get("predict_task") not in TASKS  # widgets are forgotten while another page is shown
    if arrived:
        last = state.get("predict_last_task")
        state.predict_task = last if last in TASKS else TASKS[0]
    moved = state.pop("predict_moved", False)
    submitted = state.get("predict_asked")
    if (arrived or moved) and link[1] and not (submitted and link == _linked_question()):
        _choose_model(link[0])
        BOX.set_text(link[1])
        state.predict_want = state.predict_linked = True
    elif arrived and link[0]:
        _choose_model(link[0])
    elif arrived and submitted:
        _write_address()
    elif moved and not link[1]:
        state.predict_asked = None
        BOX.set_text("")
    state.predict_last_task = state.predict_task


def _navigated() -> None:
    st.session_state.predict_moved = True


def _choose_model(name: str) -> None:
    """Choose the model, or the task, that a link names."""
    state = st.session_state
    for task in TASKS:
        if name == task or name in queued_engine.model_names(task):
            state.predict_task = task
            state.predict_model = name
            return
    if name:
        state.predict_unknown = name


def _write_address() -> None:
    st.query_params.from_dict(link_parameters())


def link_parameters() -> dict[str, str]:
    """Return the query parameters of the submitted query, constraints included."""
    model, text = _linked_question()
    return {"task": model, "smi": text, **guide_form.guide_parameters(st.session_state.predict_asked[1])}


def _linked_question() -> tuple[str, str]:
    """Return model and text of the submitted query."""
    model, smiles, _, expected = st.session_state.predict_asked
    return model, _question_text(st.session_state.predict_task, smiles, expected)


def _question_text(task: Task, smiles: str, expected: str) -> str:
    if not expected:
        return smiles
    return f"{smiles}>>{expected}" if task == "forward" else f"{expected}>>{smiles}"


# --- what visitors do ------------------------------------------------------------------------------


def _text_typed(text: str) -> None:
    BOX.store_text(text)
    if not text.strip():
        _clear_question()


def _text_submitted(text: str) -> None:
    BOX.store_text(text)
    _request_prediction()


def _request_prediction() -> None:
    st.session_state.predict_want = True


def _clear_question() -> None:
    state = st.session_state
    state.predict_asked = None
    state.predict_unlink = True


def _accept_query(model: str, read: Read) -> None:
    """Submit the text in the box, if it can be read."""
    state = st.session_state
    state.predict_stopped = None
    state.predict_asked = None
    state.predict_cards = 0
    if isinstance(read, formats.Input) and model:
        if state.pop("predict_linked", False):
            guide_form.follow_guide_link(read.ordered)
        state.predict_asked = (model, read.ordered, _reading_notes(read), read.other)
        _write_address()
    elif read is None:
        state.predict_empty = True


def _reading_notes(read: formats.Input) -> tuple[str, ...]:
    """Return the notes on how the text, or the uploaded file, was read."""
    notes = read.notes
    if read.other:
        what = "product" if st.session_state.predict_task == "forward" else "reactants"
        notes = (f"a whole reaction: its {what} will be checked", *(note for note in notes if "reaction: " not in note))
    text, upload_notes = st.session_state.get("predict_uploaded", ("", ()))
    if text and text == st.session_state.get("predict_text"):
        return (*upload_notes, *notes)
    return notes if read.kind in ("SMILES", "name") else (f"read as {read.kind}", *notes)


def _typed_sides(read: Read) -> tuple[str, str]:
    return (read.ordered, read.other) if isinstance(read, formats.Input) else ("", "")


# --- the parts --------------------------------------------------------------------------------------


def _show_hint(container: Any, text: str, read: Read, task: Task, *, stands: bool) -> None:
    """Show below the box the accepted formats, the error, or the drawn query."""
    state = st.session_state
    if state.pop("predict_unlink", False) and st.query_params:
        st.query_params.clear()
    if unknown := state.pop("predict_unknown", ""):
        query_box.warn_unknown_model(unknown)
    if isinstance(read, chem.Fault):
        container.html(query_box.fault_html(text, read))
        return
    if read is None:
        line = FORMATS
        if state.pop("predict_empty", False):
            line = "Nothing to predict yet: type or paste a molecule, draw one, or try an example."
        container.html(f'<div class="cs-hint" role="status">{escape(line)}</div>')
        return
    all_notes = _reading_notes(read)
    notes = "; ".join(all_notes)
    amber = any(
        note.startswith(("the first of", "left out", "the other side")) or " dropped" in note for note in all_notes
    )
    sign = "⚠" if amber else "✓"
    line = f"{sign} {query_preview.describe_query(read.smiles)}" + ("" if stands else " · press Enter to predict")
    small = f'<div class="cs-hint{" cs-warn" * amber}">{escape(notes)}</div>' if notes else ""
    summary = f'<div class="cs-hint" role="status">{escape(line)}</div>{small}'
    other = query_preview.other_side_html(read.other, task)
    colours, about = (stands and atom_colours.stored_query_colours(read.ordered)) or (draw.NO_COLOURS, "")
    other = (f'<p class="cs-hint">{escape(about)}</p>' if about else "") + other
    if task == "retro" and query_preview.has_bonds_to_mark(read.ordered):
        container.html(summary)
        with container:
            target, cuts = state.get("predict_cuts", ("", ()))
            shown = cuts if stands and target == read.ordered and not about else ()  # one kind of number at a time
            guide_form.show_guide_picker(read.ordered, shown, colours)
        if other:
            container.html(other)
    else:
        container.html(summary + query_preview.query_html(read.ordered, task, colours if about else None) + other)


def _show_upload(task: Task) -> None:
    state = st.session_state
    with st.popover("Upload", type="tertiary", key=f"predict_upload_{state.predict_revision}"):
        st.file_uploader(
            "A file with one molecule or one reaction (at most 1 MB)",
            type=ENDINGS,
            max_upload_size=1,
            key="predict_file",
            on_change=_read_upload,
            args=(task,),
        )
        st.caption(f"{FORMATS}. All of these can be pasted into the box as well.")
        if message := state.get("predict_file_fault"):
            st.error(escaping.plain_text(message))


def _read_upload(task: Task) -> None:
    state = st.session_state
    file = state.get("predict_file")
    state.predict_file_fault = ""
    if file is None:
        return
    read = formats.read_any(file.getvalue(), task=task)
    if isinstance(read, chem.Fault):
        state.predict_file_fault = f"This file cannot be used: {read}"
    else:
        text = read.reaction or read.ordered
        sort = () if read.kind == "SMILES" else (f"{file.name[:60]}, read as {read.kind}",)
        notes = (note for note in read.notes if not (read.other and "reaction: " in note))
        state.predict_uploaded = (text, (*sort, *notes))
        submit_text(text)


def show_history_menu() -> None:
    """Draw the menu of earlier queries; a click predicts again."""
    entries = history.recent_queries()
    if not entries:
        return
    backward = queued_engine.model_names("retro")
    with st.popover("History", type="tertiary", key=f"predict_past_{st.session_state.predict_revision}"):
        for number, entry in enumerate(entries):
            task: Task = "retro" if entry.model in backward else "forward"
            arrow = "⇐" if task == "retro" else "⇒"
            st.button(
                f"{_main_molecules(entry.smiles)} {arrow} {_main_molecules(entry.answer)}",
                key=f"predict_history_{number}",
                type="tertiary",
                on_click=submit_text,
                args=(entry.smiles, task),
                kwargs={"model": entry.model},
            )
        st.button("Clear the history", on_click=history.clear_history, key="predict_history_clear")
        st.caption("Deleted when this tab is closed.")


def _main_molecules(smiles: str) -> str:
    """Return the molecules of a flask without common reagents, as a label."""
    parts = smiles.split(".")
    text = ".".join(parts[position] for position in split_drawn_and_named(parts)[0])
    return escaping.plain_text(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


@st.dialog("Draw", width="large")
def _sketch_dialog(text: str, read: Read) -> None:
    """Show the sketcher with what the box holds; "Use" puts the drawing into the box."""
    if reason := vendor.missing_reason("ketcher"):
        st.info(f"No sketcher here, text only: {reason}.")
        return
    state = st.session_state
    shown: str | None = state.get("predict_drawn")  # what was drawn since the dialog opened
    if shown is None:
        shown = text.strip() if ">" in text else _typed_sides(read)[0] or text.strip()
    sketcher.show_sketcher(shown, key="predict_sketcher", on_change=lambda drawn: state.update(predict_drawn=drawn))
    if st.button("Use this drawing", type="primary", key="predict_use"):
        BOX.set_text(shown)
        st.rerun()
