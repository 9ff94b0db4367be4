"""What the page How it works is about: a model, a query and a search, and which depths of it are open."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from chemspec.chem import formats
from chemspec.engine.registry import task_of_model
from chemspec.ui.common import query_box, widgets
from chemspec.ui.common.query_box import TASK_LABELS, QueryText, show_reading
from chemspec.ui.step import search_form

BOX = QueryText("learn")
DEPTHS = {  # by name in the address, also an old page of its own: the heading
    "idea": "**The idea**: one answer, told as a scroll",
    "step": "**Step through**: every draft of every pass, beams, and where the model looks",
    "speed": "**Speed**: the same query with and without drafts, timed on this computer",
}

Asked = tuple[str, str]  # model and query


def choose_question(names: Sequence[str]) -> Asked | None:
    """Draw the form; return what was asked; None for the recorded example."""
    state, opened = st.session_state, BOX.is_new
    if names and (named := BOX.follow_link(names)) is not None:
        state.learn_model = named or names[0]
        search_form.set_search(search_form.linked_search())
        ask(linked=False)
        opened = True
    elif opened and "learn_asked" in state and not query_box.linked_query()[1]:  # back on this page by its link
        _write_address(state.learn_asked)
    if opened:
        depth = st.query_params.get("depth", "idea")
        state.update({f"learn_{name}": name == (depth if depth in DEPTHS else "idea") for name in DEPTHS})
    with st.expander("Explain an answer of your own", expanded="learn_asked" in state or not state.learn_idea):
        if not names:
            st.info("No model is installed yet. The page Models says how to add one.")
        else:
            _show_form(names)
    chosen: Asked | None = state.get("learn_asked")
    return chosen if chosen and chosen[0] in names else None


def set_question(model: str, query: str, search: Mapping[str, Any]) -> None:
    """Ask a query with a search of the depth Step through."""
    st.session_state.learn_model = model
    BOX.set_text(query)
    search_form.set_search(search)
    ask()


def ask(*, linked: bool = True) -> None:
    """Ask what is in the form, if that can be read; if `linked`, put it into the address, so that it can be shared."""
    state = st.session_state
    read = formats.read_input(state.get("learn_text", ""), task=task_of_model(state.learn_model) or "forward")
    if isinstance(read, formats.Input):
        state.learn_asked = state.learn_link = (state.learn_model, read.smiles)
        if linked:
            _write_address(state.learn_asked)


def write_search() -> None:
    """Put the search of the form into the address; a callback."""
    if chosen := st.session_state.get("learn_asked"):
        _write_address(chosen)


def _write_address(chosen: Asked) -> None:
    others = {name: st.query_params[name] for name in ("part", "depth") if name in st.query_params}
    st.query_params.from_dict({**others, "task": chosen[0], "smi": chosen[1], **search_form.search_address()})


def _forget() -> None:
    for name in ("learn_asked", "learn_link"):
        st.session_state.pop(name, None)
    BOX.set_text("")
    st.query_params.clear()


def _navigated() -> None:
    if not query_box.linked_query()[1]:  # back at the example that the page began with
        _forget()


def _show_form(names: Sequence[str]) -> None:
    state = st.session_state
    if state.get("learn_model") not in names:
        state.learn_model = names[0]
    choose: Any = widgets.segmented_choice
    choose("Model", names, key="learn_model", hidden=True, format_func=_model_label, persist_state="session")
    task = task_of_model(state.learn_model) or "forward"
    text, read = BOX.show_box(task, on_submit=ask, on_navigate=_navigated)
    show_reading(text, read)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="learn_examples"):
        st.button("Explain", key="learn_run", type="primary", on_click=ask)
        if "learn_asked" in state:
            st.button("Back to the example", key="learn_back", type="tertiary", on_click=_forget)
        for example in query_box.load_examples(task):
            chosen: Any = (state.learn_model, example.smiles, {})
            st.button(example.name, key=f"learn_example_{example.name}", on_click=set_question, args=chosen)


def _model_label(name: str) -> str:
    task = task_of_model(name) or ""
    return TASK_LABELS.get(name) or f"{task.capitalize()}, with the model {name}" if task else name
