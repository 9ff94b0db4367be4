"""What a visitor of the page "Step through" asks for: widgets in, a question or an opened file out."""

from __future__ import annotations

import json
from dataclasses import dataclass

import streamlit as st

from chemspec.asset_files import assets
from chemspec.plugins import DRAFTERS
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import draw, queued_engine, saved, theme

MOST_WIDTH = 10  # of a beam: the tree of a wider one cannot be read
DECODERS = {"greedy": "Greedy: one answer", "beam": "Beam search: several answers"}


@dataclass(frozen=True)
class Question:
    """A query for a model, with settings that record the tree of prefixes."""

    model: str
    query: str
    settings: DecodeSettings


def question(
    model: str, query: str, decoder: str = "greedy", n: int = 5, drafter: str | None = None, length: int = 0
) -> Question:
    """Return a question with the page's defaults.

    A beam alone fills its passes on a small machine, and `auto` then drafts nothing; on a page about drafts, `copy`
    shows more.

    Args:
        model: its name.
        query: a SMILES.
        decoder: "greedy" or "beam".
        n: width of a beam.
        drafter: its name; None for the default.
        length: most tokens of a draft; 0 leaves it to the drafter.
    """
    drafter = drafter or ("auto" if decoder == "greedy" else "copy")
    width = n if decoder == "beam" else 1
    settings = DecodeSettings(decoder=decoder, n=width, drafter=drafter, draft_length=length, record=True)
    return Question(model, query, settings)


def current(names: list[str]) -> Question | DecodeResult | None:
    """Draw the form; returns what is on show: a question, an opened trace, or nothing yet."""
    _follow_link(names)
    shown: Question | DecodeResult | None = st.session_state.get("step_shown")
    _prefill(shown, names)
    if names:
        with st.form("step_form", border=False):
            asked = _form(names)
        if asked:
            shown = asked
            _show(asked)
    return shown


def _show(asked: Question) -> None:
    """Put a question on show, and into the address, so that the page can be shared."""
    st.session_state["step_shown"] = asked
    st.session_state["step_link"] = (asked.model, asked.query)
    st.query_params.from_dict({"task": asked.model, "smi": asked.query})


def _choose(asked: Question) -> None:
    """Put a question on show that was not typed into the form."""
    _show(asked)
    _forget()


def _follow_link(names: list[str]) -> None:
    """Who comes by a link with a query wants it answered."""
    link = (st.query_params.get("task", names[0] if names else ""), st.query_params.get("smi", ""))
    if link[1] and link != st.session_state.get("step_link"):
        st.session_state["step_link"] = link
        st.session_state["step_shown"] = question(link[0] if link[0] in names else (names or [""])[0], link[1])
        _forget()


def _forget() -> None:
    for name in ("model", "query", "decoder", "n", "drafter", "length"):
        st.session_state.pop(f"step_{name}", None)


def _prefill(shown: Question | DecodeResult | None, names: list[str]) -> None:
    """Widgets forget what they held when their page is left; they show the question on show then."""
    asked = shown if isinstance(shown, Question) else question(names[0] if names else "", "")
    values = {
        "model": asked.model if asked.model in names else (names or [""])[0],
        "query": asked.query,
        "decoder": asked.settings.decoder,
        "n": asked.settings.n if asked.settings.decoder == "beam" else 5,
        "drafter": asked.settings.drafter,
        "length": asked.settings.draft_length,
    }
    for name, value in values.items():
        st.session_state.setdefault(f"step_{name}", value)


def _form(names: list[str]) -> Question | None:
    left, middle, options, right = st.columns([1.8, 6, 2, 1.4], vertical_alignment="bottom")
    model = left.selectbox("Model", names, key="step_model")
    query = middle.text_input(
        "Query SMILES", key="step_query", max_chars=4000, placeholder="reactants for forward, a product for retro"
    )
    pressed = right.form_submit_button("Run", type="primary", width="stretch")
    way = st.session_state["step_decoder"]
    way = f"{way} {st.session_state['step_n']}" if way == "beam" else way
    with options.popover(f"{way}, {st.session_state['step_drafter']}", width="stretch"):
        decoder = st.selectbox("Decoder", list(DECODERS), format_func=DECODERS.__getitem__, key="step_decoder")
        n = st.number_input("Answers of a beam search", 2, MOST_WIDTH, key="step_n")
        if st.session_state["step_drafter"] not in queued_engine.drafters(model)[0]:
            st.session_state["step_drafter"] = "auto"  # chosen for another model
        drafter = st.selectbox(
            "Drafter",
            queued_engine.drafters(model)[0],
            format_func=lambda name: DRAFTERS[name].title,
            key="step_drafter",
            help="Who guesses ahead. It changes the number of passes, never the answer.",
        )
        length = st.number_input(
            "Draft length", 0, 64, key="step_length", help="Most tokens of a draft; 0 leaves it to the drafter."
        )
        st.caption("They take effect with Run.")
    if not pressed:
        return None
    if not query.strip():
        st.warning("Type a SMILES first, or take one of the examples below.")
        return None
    return question(model, query.strip(), decoder, n, drafter, length)


def upload() -> None:
    """Open a saved trace and put it on show; one that cannot be opened says why."""
    with st.popover("Open a saved trace", width="stretch"):
        file = st.file_uploader(
            "A .json file saved on this page; at most 5 MB. No model is needed to look at it.",
            type=["json"],
            key="step_file",
        )
        if file is None:
            return
        known, fault = st.session_state.get("step_file_read", ("", ""))
        opened = None
        if known != file.file_id:
            try:
                saved.check_size(file.size)  # before it is read
                opened, fault = saved.read(file.getvalue()), ""
            except saved.SavedError as error:
                fault = str(error)
            st.session_state["step_file_read"] = (file.file_id, fault)
        if fault:
            st.error(fault)
    if opened is not None:
        st.session_state["step_shown"] = opened
        st.session_state.pop("step_link", None)
        st.query_params.clear()


def welcome(names: list[str]) -> None:
    """The empty page: what one sees here, and three examples."""
    st.markdown(
        "A model writes its answer token by token. Here you watch it copy whole spans of your query instead: "
        "which guesses it confirms, which it throws away, and where each atom of the answer came from."
    )
    examples = json.loads((assets() / "examples" / "step.json").read_text(encoding="utf-8"))
    for column, example in zip(st.columns(3), examples, strict=True):
        title, query = example["title"], example["query"]
        with column, st.container(border=True, height="stretch"):
            st.markdown(f"**{title}**")
            st.caption(example["line"])
            draw.show(draw.molecule(query, width=300, height=150, dark=theme.dark()), title)
            able = [name for name in queued_engine.models(example["task"]) if name in names]
            st.button(
                "Step through",
                key=f"step_example_{title}",
                disabled=not able,
                width="stretch",
                on_click=_choose,
                args=(question(able[0] if able else "", query, example["decoder"]),),
            )
