"""What a visitor of the page "Step through" asks for: widgets in, a question out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import streamlit as st

from chemspec.asset_files import assets_folder
from chemspec.chem import formats
from chemspec.engine.registry import task_of_model
from chemspec.plugins import DRAFTERS
from chemspec.settings import DecodeSettings
from chemspec.ui.common import queued_engine, widgets
from chemspec.ui.common.query_box import MAX_STEPPED_BEAM, QueryText, linked_query, show_reading

SPEC_VERIFICATION = "spec-verification"  # greedy with beta above 1
DECODERS = {
    "greedy": "Greedy: one answer",
    "beam": "Beam search: several answers",
    SPEC_VERIFICATION: "Spec-Verification (relaxed)",
    "sbs": "SBS (relaxed)",
}
SEVERAL = ("beam", "sbs")
DRAFTS_BY = {"greedy": "auto", "sbs": "windows"}  # the page's default; for the others copy, see `set_question`
MOST_DRAFTED = 64  # tokens of a draft
BETA = 3  # beta of Xia et al., who report it with tau = 1
BOX = QueryText("step")
INTRODUCTION = (
    "A model writes its answer token by token. Here you watch it copy whole spans of your query instead: which guesses "
    "it confirms, which it throws away, and where each atom of the answer came from."
)


@dataclass(frozen=True)
class StepQuestion:
    """A query for a model, with settings that record the tree of prefixes."""

    model: str
    query: str
    settings: DecodeSettings


def current_question(names: list[str]) -> StepQuestion | None:
    """Draw the form; return the question, once there is one."""
    if (named := BOX.follow_link(names)) is not None:
        st.session_state.step_shown = None
        set_question(named or (names or [""])[0], st.session_state.step_text, _linked_search())
    elif names and not linked_query()[1]:
        _show_first_example()
        if BOX.is_new and (address := st.session_state.get("step_address")):  # back on this page by its link
            st.query_params.from_dict(address)
    if names:
        _show_form(names)
        _show_examples()
    shown: StepQuestion | None = st.session_state.get("step_shown")
    return shown


def _linked_search() -> dict[str, Any]:
    """Return the search that the address names; what it leaves out, or has wrong, is empty or 0."""
    decoder, n, drafter, length = (st.query_params.get(name, "") for name in ("decoder", "n", "drafts", "length"))
    return {
        "decoder": decoder if decoder in DECODERS else "",
        "n": max(2, int(n)) if n.isdecimal() and 1 <= int(n) <= MAX_STEPPED_BEAM else 0,
        "drafter": drafter if drafter in DRAFTERS else "",
        "length": int(length) if length.isdecimal() and int(length) <= MOST_DRAFTED else 0,
    }


def set_question(model: str, query: str, search: Mapping[str, Any] | None = None, *, linked: bool = True) -> None:
    """Put a query into the form and run it; if `linked`, put it into the address, too.

    `search` may have `decoder`, `n`, `drafter` and `length`. Without a drafter it is the page's own choice: a beam
    alone fills its passes on a small machine, and `auto` then drafts nothing; on a page about drafts, `copy` shows
    more. SBS takes `windows`, as its authors do.
    """
    search = search or {}
    decoder = search.get("decoder") or "greedy"
    chosen = {"model": model, "decoder": decoder, "n": 5, "drafter": DRAFTS_BY.get(decoder, "copy"), "length": 0}
    st.session_state.update({f"step_{name}": search.get(name) or value for name, value in chosen.items()})
    BOX.set_text(query)
    _run_question(linked=linked)


def _run_question(*, linked: bool = True) -> None:
    """Put what the form asks on show, and if `linked` into the address, so that the page can be shared."""
    state = st.session_state
    model, decoder = state.step_model, state.step_decoder
    read = formats.read_any(state.step_text, task=task_of_model(model) or "forward")
    if isinstance(read, formats.Input):
        relaxed = decoder == SPEC_VERIFICATION
        settings = DecodeSettings(
            decoder="greedy" if relaxed else decoder,
            n=int(state.step_n) if decoder in SEVERAL else 1,
            beta=BETA if relaxed else 1,
            drafter=state.step_drafter,
            draft_length=int(state.step_length),
            drafting="planned" if state.step_drafter == "auto" else "fixed",  # named to see what it drafts
            record=True,
        )
        state.update(step_shown=StepQuestion(model, read.smiles, settings), step_link=(model, read.smiles))
        state.step_address = {}
        if linked:
            search = {"decoder": decoder, "n": str(settings.n), "drafts": settings.drafter}
            search |= {"length": str(settings.draft_length)} if settings.draft_length else {}
            state.step_address = {"task": model, "smi": read.smiles, **search}
            st.query_params.from_dict(state.step_address)


def _navigated() -> None:
    if not linked_query()[1]:  # back at the example that the page began with
        del st.session_state["step_text"]


def _show_form(names: list[str]) -> None:
    state = st.session_state
    left, middle, options, right = st.columns([1.8, 6, 2, 1.4], vertical_alignment="bottom")
    model = left.selectbox("Model", names, key="step_model", persist_state="session")
    task = task_of_model(model) or "forward"
    with middle:
        text, read = BOX.show_box(task, on_submit=_run_question, on_navigate=_navigated)
    right.button("Run", key="step_run", type="primary", width="stretch", on_click=_run_question)
    show_reading(text, read)
    drafters = queued_engine.usable_drafters(model)
    if state.get("step_drafter") not in drafters:
        state.step_drafter = "auto"  # nothing was chosen yet, or for another model
    decoder_label, n = state.setdefault("step_decoder", "greedy"), state.setdefault("step_n", 5)
    keep: Any = {"persist_state": "session"}
    label = f"{decoder_label}{f' {n}' * (decoder_label in SEVERAL)}, {state.step_drafter}"
    with options.popover(label, width="stretch"):
        st.selectbox("Decoder", list(DECODERS), format_func=DECODERS.__getitem__, key="step_decoder", **keep)
        if decoder_label in SEVERAL:
            st.number_input("Answers of a beam search", 2, MAX_STEPPED_BEAM, key="step_n", **keep)
        about = "Drafting method. It changes the number of passes, and with relaxed decoders also the answers."
        titles = {name: DRAFTERS[name].title for name in drafters}
        widgets.offered_choice("Drafter", titles, key="step_drafter", help=about)
        about = "Most tokens of a draft; 0 leaves it to the drafter."
        st.number_input("Draft length", 0, MOST_DRAFTED, key="step_length", help=about, **keep)
        st.caption("They take effect with Run.")


@cache
def step_examples() -> tuple[dict[str, Any], ...]:
    """Return the examples of this page."""
    return tuple(json.loads((assets_folder() / "examples" / "step.json").read_text(encoding="utf-8")))


def _show_examples() -> None:
    """Offer the examples that an installed model can answer, in one row, with the line of the one in the box below it.

    A tooltip would cover the form above until the mouse moves, and a touch screen has none.
    """
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="step_examples"):
        st.caption("Examples", width="content")
        for example in step_examples():
            title, able = example["title"], queued_engine.model_names(example["task"])
            question = (able[0] if able else "", example["query"], example)
            options: Any = {"disabled": not able, "on_click": set_question, "args": question}
            st.button(title, key=f"step_example_{title}", **options)
    line = next((each["line"] for each in step_examples() if each["query"] == st.session_state.get("step_text")), "")
    if line:
        st.caption(line)


def _show_first_example() -> None:
    """Put the first example on show, for who comes without a question; the address stays as it is."""
    first = step_examples()[0]
    able = queued_engine.model_names(first["task"])
    if able and "step_text" not in st.session_state:
        set_question(able[0], first["query"], {"decoder": first["decoder"]}, linked=False)
