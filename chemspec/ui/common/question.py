"""Ask for a query: the box of a page, its text in the session, what is wrong with it, and the link that holds it.

The box tells of pauses in typing and of Enter, and marks the characters at fault. Streamlit's own text boxes drop the
line ends of a pasted molfile and cannot tell "typed so far" from "asked".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import streamlit as st

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.salts import group_salts
from chemspec.settings import Task
from chemspec.ui.common import queued_engine, safe
from chemspec.ui.common.web_files import web_file

QUESTION = {"forward": "Forward: what forms?", "retro": "Retro: how to make it?"}
LABEL = {"forward": "Everything in the flask", "retro": "The molecule to make"}
PLACEHOLDER = {"forward": "e.g. aniline, CC(=O)Cl, Et3N, DCM", "retro": "e.g. lidocaine"}
STEPPED, MOST_STEPPED = ("greedy", "beam"), 50  # searches that the page Step shows, and how wide
FILES = ("molfile", "SDF", "RXN", "RDF", "CDXML", "KET")  # shown folded once they are longer than
MOST_LINES = 3
MOST_CHARS = 100_000  # of a paste; the longest files that read_any takes are shorter

Read = formats.Input | chem.Fault | None  # what a text is; None for a blank one


@dataclass(frozen=True)
class QueryText:
    """The text in the box of a page, which outlives the box's own state."""

    page: str

    def put(self, text: str) -> None:
        """Put another text into the box than the visitor's."""
        st.session_state[f"{self.page}_text"] = text
        st.session_state[f"{self.page}_revision"] = st.session_state.get(f"{self.page}_revision", 0) + 1

    def typed(self, text: str) -> None:
        """Take over what the visitor typed."""
        st.session_state[f"{self.page}_text"] = text

    def draw(
        self,
        task: Task,
        *,
        typed: Callable[[str], None],
        asked: Callable[[str], None],
        moved: Callable[[], None] = lambda: None,
    ) -> tuple[str, Read]:
        """Draw the box; return its text, and what the text is.

        Args:
            task: of the model that will answer.
            typed: gets the text after a pause in typing.
            asked: gets the text when Enter is pressed.
            moved: called when the visitor has gone back or forward. The query parameters alone do not tell: a click may
                be on its way with the old ones while the script sets new ones.
        """
        text = str(st.session_state.setdefault(f"{self.page}_text", ""))
        read = formats.read_any(text, task=task) if text.strip() else None
        span = (read.start, read.end) if isinstance(read, chem.Fault) else None
        data = {
            "label": LABEL[task],
            "placeholder": PLACEHOLDER[task],
            "text": text,
            # Goes up when the program, not the visitor, changes the text; only then the box takes it over.
            "revision": st.session_state.setdefault(f"{self.page}_revision", 0),
            "span": span,
            "fold": folded(text, read),
            "longest": MOST_CHARS,
        }
        key = f"{self.page}_box"

        def sent(name: str) -> str:
            return str((st.session_state.get(key) or {}).get(name) or "")[:MOST_CHARS]

        _box()(
            key=key,
            data=data,
            on_text_change=lambda: typed(sent("text")),
            on_ask_change=lambda: asked(sent("ask")),
            on_moved_change=moved,
        )
        return text, read


def said_html(read: Read) -> str:
    """Return how a text was read, if there is anything to say about it, as safe HTML."""
    if not isinstance(read, formats.Input):
        return ""
    sort = () if read.kind in ("SMILES", "name") else (f"read as {read.kind}",)
    told = escape("; ".join((*sort, *read.notes)))
    return f'<div class="cs-hint" role="status">✓ {told}</div>' if told else ""


def folded(text: str, read: Read) -> str:
    """Return what to show in place of a pasted file, such as "molfile, 11 atoms"; empty for what people type."""
    if not isinstance(read, formats.Input) or text.strip().count("\n") < MOST_LINES or read.kind not in FILES:
        return ""
    if read.other:
        return f"{read.kind}, a reaction of {len(group_salts(read.reaction.replace('>>', '.').split('.')))} molecules"
    atoms = mol_from_smiles(read.smiles).GetNumAtoms()
    return f"{read.kind}, {atoms} atom{'s' * (atoms != 1)}"


@st.cache_resource(show_spinner=False)
def _box():  # type: ignore[no-untyped-def]
    """Return the component, registered once a server."""
    html, css, js = (web_file(f"question.{kind}") for kind in ("html", "css", "js"))
    return st.components.v2.component("chemspec_querybox", html=html, css=css, js=js)


def link() -> tuple[str, str]:
    """Return the model or task and the query that the address names; empty where it names none."""
    return st.query_params.get("task", ""), st.query_params.get("smi", "")[:MOST_CHARS]


def warn_of_unknown(name: str) -> None:
    """Say that a link names a model that is not there."""
    known = safe.plain(", ".join(queued_engine.models())) or "none"
    st.warning(f"The link names a model that is not installed: {safe.plain(name[:60])}. Installed: {known}.")


def fault_html(text: str, fault: chem.Fault) -> str:
    """Return what is wrong, and the characters to blame marked in a line of the text, as safe HTML."""
    pointer = ""
    if "\n" not in text.strip() and fault.kind not in ("empty", "length") and fault.end > fault.start:
        pointer = f"<pre>{escape(chem.pointer(text, fault, width=60))}</pre>"
    return f'<div class="cs-hint cs-fault" role="alert"><span>⚠ {escape(str(fault))}</span>{pointer}</div>'
