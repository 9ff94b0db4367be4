"""The query panel: task, query box, sketcher, upload, options; and the link that holds the question."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import streamlit as st

from chemspec import chem, tasks
from chemspec.chem import formats
from chemspec.chem.reading import reader
from chemspec.depict.molecules import Bonds
from chemspec.settings import DecodeSettings, Task
from chemspec.ui.common import escaping, query_box, queued_engine, stock_menu, web_files, widgets
from chemspec.ui.common.escaping import join, tag
from chemspec.ui.common.query_box import QueryText, Read
from chemspec.ui.predict import query_view, sketcher
from chemspec.ui.predict.options import show_options

TASKS: tuple[Task, ...] = tasks.about_molecules()
FORMATS = f"Names, SMILES, InChI, {', '.join(reader.FILE_FORMATS)}; a list with dots, commas, + or lines"
ENDINGS = ["smi", "smiles", "txt", "inchi", *(ending.removeprefix(".") for ending in reader.ENDINGS)]
BOX = QueryText("predict")
BUTTON_LABELS: dict[Task, str] = {"forward": "Predict product", "retro": "Find precursors"}


@dataclass(frozen=True)
class Question:
    """A query with model and settings."""

    model: str  # its name
    task: Task
    smiles: str  # the query, its molecules in the order in which they were typed
    settings: DecodeSettings
    cards: int = 5  # answers, or ideas, to show
    least: int = 0  # smallest number of these, set by the button below the list
    expected: str = ""  # the other side, where a whole reaction was typed
    steps: tuple[str, ...] = ()  # texts of the steps that follow, each with the product of the one before

    @property
    def key(self) -> str:
        """A text that differs between questions: a menu with the same key would stay open over the next answers."""
        return f"{crc32(f'{self.smiles} {self.settings.guide}'.encode()):x}"

    @property
    def text(self) -> str:
        """The text of the same query: the molecules, or the whole reaction."""
        if not self.expected:
            return self.smiles
        return f"{self.smiles}>>{self.expected}" if self.task == "forward" else f"{self.expected}>>{self.smiles}"

    @property
    def link(self) -> dict[str, str]:
        """The query parameters of a link to it, constraints included."""
        guide = {query_view.LINK: self.settings.guide} if self.settings.guide else {}
        return {"task": self.model, "smi": self.text, **guide}


@dataclass
class Panel:
    """The panel of this run of the page."""

    question: Question | None  # once there is one
    task: Task
    read: Read  # the text in the box
    drawing: Any  # where the query is drawn, when its answers are known; what the run before drew stays until then

    @property
    def stale(self) -> bool:
        """Whether the box holds another query by now."""
        return not (self.question and _typed_sides(self.read) == (self.question.smiles, self.question.expected))

    def draw_still_query(self) -> None:
        """Draw the query without anything to click, while its answers are computed."""
        if isinstance(self.read, formats.Input):
            self.drawing = self.drawing.empty()
            self.drawing.html(self._query_html(self.read))

    def draw_query(self, made: Sequence[Bonds] = ()) -> None:
        """Draw the query in the box; of a target, to mark its bonds, those that each card makes numbered."""
        if isinstance(self.read, formats.Input):
            with self.drawing.container():  # where the picker was: so it keeps the focus
                marked = query_view.has_bonds_to_mark(self.read, self.task)
                if marked:
                    query_view.show_guide_picker(self.read.ordered, query_view.numbered_bonds(made))
                if html := self._query_html(self.read, drawn=marked):
                    st.html(html)

    def _query_html(self, read: formats.Input, *, drawn: bool = False) -> str:
        """Return the query, unless it is drawn, and the other side of a typed reaction, as safe HTML."""
        query = "" if drawn else query_view.query_html(read.ordered, self.task)
        if not read.other:
            return join(query)
        word, other = (
            ("gives, as you wrote", "retro") if self.task == "forward" else ("is made from, as you wrote", "forward")
        )
        return join(query, tag("p.cs-hint", word), query_view.query_html(read.other, other))


def show_query_panel() -> Panel:
    """Draw the query panel, and all of the query but its drawing."""
    state = st.session_state
    if state.get("predict_task") not in TASKS:
        state.predict_task = TASKS[0]
    named, _ = query_box.linked_query()
    arrived = BOX.is_new  # widgets are forgotten while another page is shown
    if arrived:
        _follow_link()
    task = widgets.segmented_choice(
        "Question",
        TASKS,
        key="predict_task",
        hidden=True,
        format_func=query_box.TASK_LABELS.__getitem__,
        on_change=_forget_question,
        persist_state="session",
    )
    text, read = BOX.show_box(
        task,
        on_typed=_text_typed,
        on_submit=_submit_query,
        on_navigate=_navigated,
        preview_model=str(state.get(f"predict_model_{task}") or ""),
    )
    with st.container(gap=None):
        words, drawing = st.container(gap=None), st.container(gap=None)
    pressed = st.button(BUTTON_LABELS[task], type="primary", shortcut="Ctrl+Enter", width="stretch", key="predict_ask")
    if pressed:  # not in a callback: that may come before the one that has the last characters typed
        _submit_query()
    tools = st.container(horizontal=True, vertical_alignment="center", gap="small", key="predict_tools")
    with tools:
        if st.button("Draw", key="predict_pen", type="tertiary"):
            state.pop("predict_sketcher", None)  # what was drawn when the dialog was open before
            _sketch_dialog(text, read)
        if st.button("Upload", key="predict_upload", type="tertiary"):
            _upload_dialog(task)
        model, settings, cards = show_options(task)
        if task == "retro":
            stock_menu.show_stock_menu()
            if query_view.has_bonds_to_mark(read, task):
                query_view.show_class_menu(read.ordered)
    question = _update_question(task, model, settings, cards, arrived=arrived)
    panel = Panel(question, task, read, drawing)
    with words:
        if named and not _named_task(named):
            query_box.warn_unknown_model(named)
        _show_hint(text, panel, pressed=pressed)
    return panel


def _update_question(task: Task, model: str, settings: DecodeSettings, cards: int, *, arrived: bool) -> Question | None:
    """Return the question with the options of this run; a new one is put into the address."""
    state = st.session_state
    submitted: Question | None = state.get("predict_question")
    if submitted is None or submitted.task != task or not model:
        return None
    if task == "retro":
        settings = replace(settings, guide=str(query_view.current_guide(submitted.smiles)))
    question = replace(submitted, model=model, settings=settings, cards=max(cards, submitted.least))
    if arrived or question.link != submitted.link:
        st.query_params.from_dict(question.link)
    state.predict_question = question
    return question


# --- what visitors do ------------------------------------------------------------------------------


def submit_text(text: str, task: Task | None = None) -> None:
    """Put a text into the box and predict; a callback for buttons."""
    if task is not None:
        st.session_state.predict_task = task
    BOX.set_text(text)
    _submit_query()


def _submit_query() -> None:
    state = st.session_state
    task, text = state.predict_task, str(state.get("predict_text", ""))
    read = formats.read_input(text, task=task) if text.strip() else None
    state.predict_stopped = state.predict_question = None
    if isinstance(read, formats.Input):
        state.predict_question = Question(
            "", task, read.ordered, DecodeSettings(), expected=read.other, steps=read.steps
        )


def show_more_cards(count: int) -> None:
    """Show at least this number of cards; a callback for buttons."""
    state = st.session_state
    state.predict_question = replace(state.predict_question, least=count)


def _text_typed() -> None:
    if not st.session_state.predict_text.strip():
        _forget_question()


def _forget_question() -> None:
    st.session_state.predict_question = None
    st.query_params.clear()


def _navigated() -> None:
    """Submit the query in the address, after the browser's back button."""
    _follow_link()
    if not query_box.linked_query()[1]:
        st.session_state.predict_question = None
        BOX.set_text("")


def _follow_link() -> None:
    """Submit the query in the address, unless it is the question of this visit."""
    submitted: Question | None = st.session_state.get("predict_question")
    model, text = query_box.linked_query()
    if text and not (submitted and (submitted.model, submitted.text) == (model, text)):
        _choose_model(model)
        submit_text(text)
        if question := st.session_state.predict_question:
            query_view.follow_guide_link(question.smiles)
    elif model and not text:
        _choose_model(model)


def _choose_model(name: str) -> None:
    if task := _named_task(name):
        st.session_state.predict_task = task
        if name in queued_engine.model_names(task):
            st.session_state[f"predict_model_{task}"] = name


def _named_task(name: str) -> Task | None:
    return next((task for task in TASKS if name == task or name in queued_engine.model_names(task)), None)


def _reading_notes(read: formats.Input, task: Task) -> tuple[str, ...]:
    notes = read.notes
    if read.other:
        what = "product" if task == "forward" else "reactants"
        notes = (f"a whole reaction: its {what} will be checked", *(note for note in notes if "reaction: " not in note))
    return notes if read.kind in ("SMILES", "name") else (f"read as {read.kind}", *notes)


def _typed_sides(read: Read) -> tuple[str, str]:
    return (read.ordered, read.other) if isinstance(read, formats.Input) else ("", "")


def _show_hint(text: str, panel: Panel, *, pressed: bool) -> None:
    """Show below the box the accepted formats, the error, or how the query was read."""
    read = panel.read
    if isinstance(read, chem.Fault):
        st.html(query_box.fault_html(text, read))
        query_box.show_choices(text, read, submit_text, key="predict")
        return
    if read is None:
        line = "Nothing to predict yet: type or paste a molecule, draw one, or try an example." if pressed else FORMATS
        st.html(tag("div.cs-hint", line, role="status"))
        return
    notes = _reading_notes(read, panel.task)
    amber = any(note.startswith(("the first of", "left out", "the other side")) or " dropped" in note for note in notes)
    sign = "⚠" if amber else "✓"
    line = f"{sign} {query_view.describe_query(read.smiles)}" + " · press Enter to predict" * panel.stale
    small = tag("div.cs-hint" + ".cs-warn" * amber, "; ".join(notes)) if notes else ""
    st.html(join(tag("div.cs-hint", line, role="status"), small))


@st.dialog("Upload")
def _upload_dialog(task: Task) -> None:
    label = "A file with one molecule or one reaction (at most 1 MB)"
    file = st.file_uploader(label, ENDINGS, max_upload_size=1, key="predict_file")
    st.caption(f"{FORMATS}. All of these can be pasted into the box as well.")
    if file and (fault := submit_file(file.getvalue(), task)):
        st.error(escaping.plain_text(f"This file cannot be used: {fault}"))
    elif file:
        st.rerun()


def submit_file(content: bytes, task: Task) -> chem.Fault | None:
    """Put the text of a file into the box and predict; return what is wrong with it, if anything."""
    text = reader.decode(content)
    read = text if isinstance(text, chem.Fault) else formats.read_input(text, task=task)
    if isinstance(read, chem.Fault):
        return read
    submit_text(str(text))
    return None


@st.dialog("Draw", width="large")
def _sketch_dialog(text: str, read: Read) -> None:
    """Show the sketcher with what the box holds; "Use" puts the drawing into the box."""
    if reason := web_files.missing_reason("ketcher"):
        st.info(f"No sketcher here, text only: {reason}.")
        return
    shown = text.strip() if ">" in text else _typed_sides(read)[0] or text.strip()
    drawn = sketcher.show_sketcher(shown, key="predict_sketcher")
    if st.button("Use this drawing", type="primary", key="predict_use"):
        BOX.set_text(drawn)
        st.rerun()
