"""The search that the depth Step through shows: widgets in, settings out."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import streamlit as st

from chemspec.asset_files import assets_folder
from chemspec.plugins import DRAFTERS
from chemspec.replay.explanation import DRAFT_LENGTH
from chemspec.settings import DecodeSettings
from chemspec.ui.common import queued_engine, widgets
from chemspec.ui.common.query_box import MAX_STEPPED_BEAM

SPEC_VERIFICATION = "spec-verification"  # greedy with beta above 1
DECODERS = {
    "greedy": "Greedy: one answer",
    "beam": "Beam search: several answers",
    SPEC_VERIFICATION: "Spec-Verification (relaxed)",
    "sbs": "SBS (relaxed)",
}
SEVERAL = ("beam", "sbs")
MAX_DRAFTED = 64  # tokens of a draft
BETA = 3  # beta of Xia et al., who report it with tau = 1


def linked_search() -> dict[str, Any]:
    """Return the search that the address names; what it leaves out, or has wrong, is empty or 0."""
    decoder, n, drafter, length = (st.query_params.get(name, "") for name in ("decoder", "n", "drafts", "length"))
    return {
        "decoder": decoder if decoder in DECODERS else "",
        "n": max(2, int(n)) if n.isdecimal() and 1 <= int(n) <= MAX_STEPPED_BEAM else 0,
        "drafter": drafter if drafter in DRAFTERS else "",
        "length": int(length) if length.isdecimal() and int(length) <= MAX_DRAFTED else 0,
    }


def _full_search(search: Mapping[str, Any]) -> dict[str, Any]:
    """Return a search with what it leaves out: of greedy decoding that of the scroll above.

    A beam alone fills its passes on a small machine, and `auto` then drafts nothing; on a page about drafts, `copy`
    shows more. SBS takes `windows`, as its authors do.
    """
    decoder = search.get("decoder") or "greedy"
    length = DRAFT_LENGTH if decoder == "greedy" and not search.get("drafter") else 0
    full = {"decoder": decoder, "n": 5, "drafter": "windows" if decoder == "sbs" else "copy", "length": length}
    return {name: search.get(name) or value for name, value in full.items()}


def set_search(search: Mapping[str, Any]) -> None:
    """Put a search into the form: `decoder`, `n`, `drafter` and `length`, or as many of them as it has."""
    st.session_state.update({f"step_{name}": value for name, value in _full_search(search).items()})


def search_address() -> dict[str, str]:
    """Return the search of the form as query parameters; none for the one that is there at first."""
    search = {name: st.session_state.get(f"step_{name}", value) for name, value in _full_search({}).items()}
    if search == _full_search({}):
        return {}
    n = search["n"] if search["decoder"] in SEVERAL else 1
    address = {"decoder": search["decoder"], "n": str(n), "drafts": search["drafter"]}
    return address | ({"length": str(search["length"])} if search["length"] else {})


def choose_search(model: str, on_change: Callable[[], None]) -> DecodeSettings:
    """Draw the widgets; return settings that record the tree of prefixes. `on_change` is called when one changes."""
    state = st.session_state
    for name, value in _full_search({}).items():
        state.setdefault(f"step_{name}", value)
    drafters = queued_engine.usable_drafters(model)
    if state.step_drafter not in drafters:
        state.step_drafter = "auto"  # chosen for another model
    decoder = state.step_decoder
    several = decoder in SEVERAL
    keep: Any = {"persist_state": "session", "on_change": on_change}
    with st.popover(f"{decoder}{f' {state.step_n}' * several}, {state.step_drafter}"):
        st.selectbox("Decoder", list(DECODERS), format_func=DECODERS.__getitem__, key="step_decoder", **keep)
        if several:
            st.number_input("Answers of a beam search", 2, MAX_STEPPED_BEAM, key="step_n", **keep)
        about = "Drafting method. It changes the number of passes, and with relaxed decoders also the answers."
        titles = {name: DRAFTERS[name].title for name in drafters}
        widgets.offered_choice("Drafter", titles, key="step_drafter", help=about, on_change=on_change)
        about = "Most tokens of a draft; 0 leaves it to the drafter."
        st.number_input("Draft length", 0, MAX_DRAFTED, key="step_length", help=about, **keep)
    relaxed = state.step_decoder == SPEC_VERIFICATION
    return DecodeSettings(
        decoder="greedy" if relaxed else state.step_decoder,
        n=int(state.step_n) if several else 1,
        beta=BETA if relaxed else 1,
        drafter=state.step_drafter,
        draft_length=int(state.step_length),
        drafting="planned" if state.step_drafter == "auto" else "fixed",  # named to see what it drafts
        record=True,
    )


@cache
def step_examples() -> tuple[dict[str, Any], ...]:
    """Return the examples of this depth."""
    return tuple(json.loads((assets_folder() / "examples" / "step.json").read_text(encoding="utf-8")))


def show_examples(ask: Callable[[str, str, Mapping[str, Any]], None], query: str) -> None:
    """Offer the examples that an installed model can answer, in one row, with the line of the one on show below it.

    A tooltip would cover what is below until the mouse moves, and a touch screen has none.
    """
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="step_examples"):
        st.caption("Examples", width="content")
        for example in step_examples():
            title, able = example["title"], queued_engine.model_names(example["task"])
            chosen = (able[0] if able else "", example["query"], example)
            st.button(title, key=f"step_example_{title}", disabled=not able, on_click=ask, args=chosen)
    shown = query, st.session_state.get("learn_text")  # in the model's order, and as it was given
    if line := next((each["line"] for each in step_examples() if each["query"] in shown), ""):
        st.caption(line)
