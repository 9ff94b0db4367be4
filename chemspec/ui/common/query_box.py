"""The query box of a page: its text in the session, its error message, and the link that holds it.

The box tells of pauses in typing and of Enter, and marks the characters at fault. Streamlit's own text boxes drop the
line ends of a pasted molfile and cannot tell "typed so far" from "asked".
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import streamlit as st

from chemspec import chem, question_text
from chemspec.asset_files import assets_folder
from chemspec.chem import formats
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.salts import group_salts
from chemspec.chem.reading.reader import FILE_FORMATS
from chemspec.settings import Task
from chemspec.ui.common import asked_text, escaping, login, queued_engine, theme, web_files
from chemspec.ui.common.escaping import Html, join, tag

TASK_LABELS = {"forward": "Forward: what forms?", "retro": "Retro: how to make it?"}
BOX_LABELS = {"forward": "Everything in the reaction mixture", "retro": "The molecule to make"}
PLACEHOLDERS = {"forward": "e.g. aniline, CC(=O)Cl, Et3N, DCM", "retro": "e.g. lidocaine"}
STEPPED_DECODERS = ("greedy", "beam", "sbs")  # searches that the depth Step through shows
MAX_STEPPED_BEAM = 50  # and how wide
MAX_UNFOLDED_LINES = 3  # longer texts of files are shown folded
MAX_CHOICES = 6  # buttons for what a doubtful name may mean
MAX_PASTED_CHARS = 200_000  # characters of a paste or a small file; `read_input` takes no longer ones

NO_PREVIEWS = "For answers while you type, start the app with “chemspec app”; Streamlit alone has none."

Read = formats.Input | chem.Fault | None  # what a text is; None for a blank one


@dataclass(frozen=True)
class QueryText:
    """The query box of a page and its text, which is stored longer than the widget's state."""

    page: str

    def set_text(self, text: str) -> None:
        """Replace the text in the box."""
        st.session_state[f"{self.page}_text"] = text
        st.session_state[f"{self.page}_revision"] = st.session_state.get(f"{self.page}_revision", 0) + 1

    def follow_link(self, names: Sequence[str]) -> str | None:
        """Take over the query of a new address; return its model, empty if it is none of `names`, None if not new."""
        linked = linked_query()
        if not linked[1] or linked == st.session_state.get(f"{self.page}_link"):
            return None
        st.session_state[f"{self.page}_link"] = linked
        self.set_text(linked[1])
        if linked[0] and linked[0] not in names:
            warn_unknown_model(linked[0])
        return linked[0] if linked[0] in names else ""

    @property
    def is_new(self) -> bool:
        """Whether the page has just been opened: Streamlit forgets the widgets of pages that are not shown."""
        return f"{self.page}_box" not in st.session_state

    def show_box(
        self,
        task: Task,
        *,
        on_submit: Callable[[], object],
        on_typed: Callable[[], object] = lambda: None,
        on_navigate: Callable[[], object] = lambda: None,
        preview_model: str | None = None,
    ) -> tuple[str, Read]:
        """Draw the box; return its text, and how the text was read for a model of this task.

        `on_typed` is called after a pause in typing, `on_submit` when Enter is pressed; both find the text stored.
        `on_navigate` is called when the visitor has gone back or forward: the query parameters alone do not tell, since
        a click may be on its way with the old ones while the script sets new ones. With a `preview_model` (empty: the
        task's first one) the box shows the model's answer while the visitor types.
        """
        asked_text.open_pending()
        text = str(st.session_state.setdefault(f"{self.page}_text", ""))
        read = _read_box(text, task)
        span = (read.start, read.end) if isinstance(read, chem.Fault) else None
        data = {
            "label": BOX_LABELS[task],
            "placeholder": PLACEHOLDERS[task],
            "text": text,
            # Goes up when the program, not the visitor, changes the text; only then the box takes it over.
            "revision": st.session_state.setdefault(f"{self.page}_revision", 0),
            "span": span,
            "fold": folded_label(text, read),
            "longest": MAX_PASTED_CHARS,
            "preview": _preview_request(task, preview_model),
        }
        key = f"{self.page}_box"

        def store(name: str, then: Callable[[], object]) -> None:
            sent = (st.session_state.get(key) or {}).get(name) or ""
            if not asked_text.follow(str(sent), self.page, self.set_text, on_navigate):
                st.session_state[f"{self.page}_text"] = str(sent)[:MAX_PASTED_CHARS]
                then()

        web_files.component("question")(
            key=key,
            data=data,
            on_text_change=lambda: store("text", on_typed),
            on_ask_change=lambda: store("ask", on_submit),
            on_moved_change=on_navigate,
        )
        if preview_model is not None and not text and not login.previews_offered.is_set():
            st.html(tag("div.cs-hint", NO_PREVIEWS))
        return text, read


def _read_box(text: str, task: Task) -> Read:
    if question_text.is_question(text):  # one that can be read has been followed
        try:
            question_text.read_question(text)
        except ValueError as error:
            return chem.Fault(str(error), 0, len(text), "other")
    return formats.read_input(text, task=task) if text.strip() else None


def _preview_request(task: Task, model: str | None) -> dict[str, object] | None:
    """Return what a request for a preview has in addition to the text; None where there are no previews."""
    if model is None or not login.previews_offered.is_set():
        return None
    return {"task": task, "model": model, "session": login.session_id(), "dark": theme.is_dark()}


def show_reading(text: str, read: Read) -> None:
    """Show how a text was read, where there is anything to note, or what is wrong with it."""
    if isinstance(read, chem.Fault):
        st.html(fault_html(text, read))
    elif read:
        kind = () if read.kind in ("SMILES", "name") else (f"read as {read.kind}",)
        if notes := "; ".join((*kind, *read.notes)):
            st.html(tag("div.cs-hint", f"✓ {notes}", role="status"))


def show_choices(text: str, read: Read, choose: Callable[[str], None], *, key: str) -> None:
    """Draw a button for each name that may be meant where a text is doubtful; `choose` gets the text with it."""
    if not isinstance(read, chem.Fault) or not read.choices:
        return
    with st.container(horizontal=True, gap="small", key=f"{key}_choices"):
        for number, choice in enumerate(read.choices[:MAX_CHOICES]):
            meant = text[: read.start] + choice + text[read.end :]
            label = escaping.plain_text(choice)
            st.button(label, key=f"{key}_choice_{number}", type="tertiary", on_click=choose, args=(meant,))


def folded_label(text: str, read: Read) -> str:
    """Return the label of a pasted file, such as "molfile, 11 atoms"; empty for typed text."""
    if (
        not isinstance(read, formats.Input)
        or text.strip().count("\n") < MAX_UNFOLDED_LINES
        or read.kind not in FILE_FORMATS
    ):
        return ""
    if read.other:
        return f"{read.kind}, a reaction of {len(group_salts(read.reaction.replace('>>', '.').split('.')))} molecules"
    atoms = mol_from_smiles(read.smiles).GetNumAtoms()
    return f"{read.kind}, {atoms} atom{'s' * (atoms != 1)}"


def linked_query() -> tuple[str, str]:
    """Return the model or task and the query that the address names; empty where it names none."""
    return st.query_params.get("task", ""), st.query_params.get("smi", "")[:MAX_PASTED_CHARS]


def warn_unknown_model(name: str) -> None:
    """Warn that a link names a model that is not installed."""
    installed = escaping.plain_text(", ".join(queued_engine.model_names())) or "none"
    unknown = escaping.plain_text(name[:60])
    st.warning(f"The link names a model that is not installed: {unknown}. Installed: {installed}.")


def fault_html(text: str, fault: chem.Fault) -> Html:
    """Return the error message, with the characters at fault marked in the text, as safe HTML."""
    pointer = join()
    if "\n" not in text.strip() and fault.kind not in ("empty", "length") and fault.end > fault.start:
        pointer = tag("pre", chem.pointer(text, fault, width=60))
    return tag("div.cs-hint.cs-fault", tag("span", f"⚠ {fault}"), pointer, role="alert")


@dataclass(frozen=True)
class Example:
    """A query for one task, its name and a line of explanation."""

    task: Task
    name: str
    line: str
    smiles: str


@cache
def load_examples(task: Task | None = None) -> tuple[Example, ...]:
    """Return the examples that come with the program, for all tasks or for one."""
    items = json.loads((assets_folder() / "examples" / "gallery.json").read_text(encoding="utf-8"))
    return tuple(Example(**item) for item in items if task in (None, item["task"]))
