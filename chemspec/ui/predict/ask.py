"""Where a visitor asks: task, query box, sketcher, upload, options; and the link that holds the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import streamlit as st

from chemspec import chem, tasks
from chemspec.chem import formats
from chemspec.chem.names.short_names import split_drawn_and_named
from chemspec.settings import DecodeSettings, Task
from chemspec.ui.common import buyable, draw, history, question, queued_engine, safe, sketcher, vendor, widgets
from chemspec.ui.common.options import options
from chemspec.ui.common.question import QueryText, Read
from chemspec.ui.predict import atom_colours, guiding, understood

TASKS: tuple[Task, ...] = tasks.about_molecules()
FORMATS = "Names, SMILES, InChI, molfile, SDF, RXN, CDXML or KET; a list with dots, commas, + or lines"
ENDINGS = ["smi", "smiles", "txt", "inchi", "mol", "sdf", "rxn", "rdf", "cdxml", "ket"]
LONGEST = 34  # characters of a SMILES on a button
BOX = QueryText("predict")
BUTTON: dict[Task, str] = {"forward": "Predict product", "retro": "Find precursors"}


@dataclass(frozen=True)
class Asked:
    """A question that a model can answer.

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
    def text(self) -> str:
        """What asks the same again: the query, or the whole reaction."""
        return _text(self.task, self.smiles, self.expected)


def put(text: str, task: Task | None = None, *, model: str = "") -> None:
    """Put a text into the box and ask it; a callback for buttons."""
    state = st.session_state
    if task is not None:
        state.predict_task = task
        state.predict_model = model
    BOX.put(text)
    state.predict_want = True


def ask() -> tuple[Asked | None, bool, Any]:
    """Draw everything a visitor asks with.

    Returns:
        the question, once there is one; whether the box holds another one by now; the row of buttons, for more.
    """
    _follow_link()
    state = st.session_state
    task = widgets.choice(
        "Question", TASKS, key="predict_task", hidden=True, format_func=question.QUESTION.__getitem__, on_change=_forget
    )
    text, read = BOX.draw(task, typed=_typed, asked=_enter, moved=_moved)
    hint = st.container(gap=None)
    asking = BUTTON[task]
    st.button(asking, type="primary", shortcut="Ctrl+Enter", on_click=_want, width="stretch", key="predict_ask")
    row = st.container(horizontal=True, vertical_alignment="center", gap="small", key="predict_tools")
    with row:
        if st.button("Draw", key="predict_pen", type="tertiary"):
            state.predict_drawn = None
            _sketch(text, read)
        _upload(task)
        model, settings, cards = options(task)
        if task == "retro":
            buyable.menu()
    if state.pop("predict_want", False):
        _accept(model, read)
    asked: tuple[str, str, tuple[str, ...], str] | None = state.get("predict_asked")
    stands = asked is not None and _sides(read) == (asked[1], asked[3])
    _hint(hint, text, read, task, stands=stands)
    if task == "retro" and isinstance(read, formats.Input) and understood.pickable(read.ordered):
        with row:
            guiding.classes(read.ordered)
    if asked is None or model == "":
        return None, False, row
    if task == "retro":
        settings = guiding.apply(settings, asked[1])
    cards = max(cards, state.get("predict_cards", 0))
    return Asked(model, task, asked[1], settings, asked[2], cards, asked[3]), not stands, row


# --- the link: ?task=retro&smi=... -----------------------------------------------------------------


def _follow_link() -> None:
    """Take over what the address says, where somebody followed a link or went back."""
    state = st.session_state
    link = question.link()
    arrived = state.get("predict_task") not in TASKS  # widgets are forgotten while another page is shown
    if arrived:
        last = state.get("predict_last_task")
        state.predict_task = last if last in TASKS else TASKS[0]
    moved = state.pop("predict_moved", False)
    asked = state.get("predict_asked")
    if (arrived or moved) and link[1] and not (asked and link == _link()):
        _choose(link[0])
        BOX.put(link[1])
        state.predict_want = state.predict_linked = True
    elif arrived and link[0]:
        _choose(link[0])
    elif arrived and asked:
        _write_link()
    elif moved and not link[1]:
        state.predict_asked = None
        BOX.put("")
    state.predict_last_task = state.predict_task


def _moved() -> None:
    st.session_state.predict_moved = True


def _choose(name: str) -> None:
    """Choose the model, or the task, that a link names."""
    state = st.session_state
    for task in TASKS:
        if name == task or name in queued_engine.models(task):
            state.predict_task = task
            state.predict_model = name
            return
    if name:
        state.predict_unknown = name


def _write_link() -> None:
    st.query_params.from_dict(address())


def address() -> dict[str, str]:
    """Return what the address of the question that was asked holds, marked bonds and chosen classes included."""
    model, text = _link()
    return {"task": model, "smi": text, **guiding.link(st.session_state.predict_asked[1])}


def _link() -> tuple[str, str]:
    """Return model and text of the question that was asked."""
    model, smiles, _, expected = st.session_state.predict_asked
    return model, _text(st.session_state.predict_task, smiles, expected)


def _text(task: Task, smiles: str, expected: str) -> str:
    if not expected:
        return smiles
    return f"{smiles}>>{expected}" if task == "forward" else f"{expected}>>{smiles}"


# --- what visitors do ------------------------------------------------------------------------------


def _typed(text: str) -> None:
    BOX.typed(text)
    if not text.strip():
        _forget()


def _enter(text: str) -> None:
    BOX.typed(text)
    _want()


def _want() -> None:
    st.session_state.predict_want = True


def _forget() -> None:
    state = st.session_state
    state.predict_asked = None
    state.predict_unlink = True


def _accept(model: str, read: Read) -> None:
    """Ask what is in the box, if it can be read."""
    state = st.session_state
    state.predict_stopped = None
    state.predict_asked = None
    state.predict_cards = 0
    if isinstance(read, formats.Input) and model:
        if state.pop("predict_linked", False):
            guiding.follow_link(read.ordered)
        state.predict_asked = (model, read.ordered, _notes(read), read.other)
        _write_link()
    elif read is None:
        state.predict_empty = True


def _notes(read: formats.Input) -> tuple[str, ...]:
    """Return what was done in reading, of a file that was uploaded what was done there."""
    notes = read.notes
    if read.other:
        what = "product" if st.session_state.predict_task == "forward" else "reactants"
        notes = (f"a whole reaction: its {what} will be checked", *(note for note in notes if "reaction: " not in note))
    text, told = st.session_state.get("predict_uploaded", ("", ()))
    if text and text == st.session_state.get("predict_text"):
        return (*told, *notes)
    return notes if read.kind in ("SMILES", "name") else (f"read as {read.kind}", *notes)


def _sides(read: Read) -> tuple[str, str]:
    return (read.ordered, read.other) if isinstance(read, formats.Input) else ("", "")


# --- the parts --------------------------------------------------------------------------------------


def _hint(place: Any, text: str, read: Read, task: Task, *, stands: bool) -> None:
    """Show below the box what it takes, what is wrong, or what was understood, drawn."""
    state = st.session_state
    if state.pop("predict_unlink", False) and st.query_params:
        st.query_params.clear()
    if unknown := state.pop("predict_unknown", ""):
        question.warn_of_unknown(unknown)
    if isinstance(read, chem.Fault):
        place.html(question.fault_html(text, read))
        return
    if read is None:
        line = FORMATS
        if state.pop("predict_empty", False):
            line = "Nothing to predict yet: type or paste a molecule, draw one, or try an example."
        place.html(f'<div class="cs-hint" role="status">{escape(line)}</div>')
        return
    told = _notes(read)
    notes = "; ".join(told)
    amber = any(note.startswith(("the first of", "left out", "the other side")) or " dropped" in note for note in told)
    sign = "⚠" if amber else "✓"
    line = f"{sign} {understood.in_words(read.smiles)}" + ("" if stands else " · Enter asks")
    small = f'<div class="cs-hint{" cs-warn" * amber}">{escape(notes)}</div>' if notes else ""
    said = f'<div class="cs-hint" role="status">{escape(line)}</div>{small}'
    other = understood.other_side(read.other, task)
    colours, about = (stands and atom_colours.of_query(read.ordered)) or (draw.PLAIN, "")
    other = (f'<p class="cs-hint">{escape(about)}</p>' if about else "") + other
    if task == "retro" and understood.pickable(read.ordered):
        place.html(said)
        with place:
            target, cuts = state.get("predict_cuts", ("", ()))
            shown = cuts if stands and target == read.ordered and not about else ()  # one kind of number at a time
            guiding.picker(read.ordered, shown, colours)
        if other:
            place.html(other)
    else:
        place.html(said + understood.picture(read.ordered, task, colours if about else None) + other)


def _upload(task: Task) -> None:
    state = st.session_state
    with st.popover("Upload", type="tertiary"):
        st.file_uploader(
            "A file with one molecule or one reaction (at most 1 MB)",
            type=ENDINGS,
            max_upload_size=1,
            key="predict_file",
            on_change=_uploaded,
            args=(task,),
        )
        st.caption(f"{FORMATS}. All of these can be pasted into the box as well.")
        if message := state.get("predict_file_fault"):
            st.error(safe.plain(message))


def _uploaded(task: Task) -> None:
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
        told = (note for note in read.notes if not (read.other and "reaction: " in note))
        state.predict_uploaded = (text, (*sort, *told))
        put(text)


def history_menu() -> None:
    """Queries asked before; a click asks again."""
    entries: Sequence[history.Entry] = history.recent()
    if not entries:
        return
    backward = queued_engine.models("retro")
    with st.popover("History", type="tertiary"):
        for number, entry in enumerate(entries):
            task: Task = "retro" if entry.model in backward else "forward"
            arrow = "⇐" if task == "retro" else "⇒"
            st.button(
                f"{_main(entry.smiles)} {arrow} {_main(entry.answer)}",
                key=f"predict_history_{number}",
                type="tertiary",
                on_click=put,
                args=(entry.smiles, task),
                kwargs={"model": entry.model},
            )
        st.button("Clear the history", on_click=history.clear, key="predict_history_clear")
        st.caption("Kept until this tab is closed.")


def _main(smiles: str) -> str:
    """Return a flask without its common reagents, for a button."""
    parts = smiles.split(".")
    text = ".".join(parts[place] for place in split_drawn_and_named(parts)[0])
    return safe.plain(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


@st.dialog("Draw", width="large")
def _sketch(text: str, read: Read) -> None:
    """Show the sketcher with what the box holds; "Use" puts the drawing into the box."""
    if reason := vendor.why_not("ketcher"):
        st.info(f"No sketcher here, text only: {reason}.")
        return
    state = st.session_state
    shown: str | None = state.get("predict_drawn")  # what was drawn since the dialog opened
    if shown is None:
        shown = text.strip() if ">" in text else _sides(read)[0] or text.strip()
    sketcher.sketcher(shown, key="predict_sketcher", on_change=lambda drawn: state.update(predict_drawn=drawn))
    if st.button("Use this drawing", type="primary", key="predict_use"):
        BOX.put(shown)
        st.rerun()
