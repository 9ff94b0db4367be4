"""How it works as one scroll about one answer: a recorded one, or that to a query of the visitor's own."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import streamlit as st

from chemspec.asset_files import assets_folder
from chemspec.chem import formats
from chemspec.depict.colors import SPANS
from chemspec.engine.engine import Engine
from chemspec.engine.forks import score_drafts
from chemspec.engine.registry import task_of_model
from chemspec.replay import explained_page, explanation
from chemspec.replay.explanation import CLOCKS, Choices, Clock
from chemspec.system import host
from chemspec.types import DecodeResult, result_from_json
from chemspec.ui.common import escaping, nav, queued_engine, theme, web_files, widgets
from chemspec.ui.common.query_box import TASK_LABELS, QueryText, show_reading

BOX = QueryText("learn")
HTML = '<div id="explain"></div>'
HERE = "this computer"


@dataclass(frozen=True)
class Story:
    """An answer to explain."""

    task: str
    result: DecodeResult
    choices: Choices
    clocks: Sequence[Clock] = CLOCKS

    @property
    def model(self) -> str:
        """The name of the model that gave it."""
        return str(self.result.trace.settings.get("model", self.task))


@cache
def recorded_story() -> Story:
    """Return the example, which is shown without any model; `assets/examples/record.py` wrote it."""
    text = (assets_folder() / "examples" / "learn" / "amide.json").read_text(encoding="utf-8")
    parts = json.loads(text)
    return Story(parts["task"], result_from_json(json.dumps(parts["result"])), parts["choices"])


def tell_story(engine: Engine, query: str) -> Story:
    """Answer a query greedily with copied drafts, and score along its drafts; ValueError if that is not possible."""
    result = queued_engine.cached_prediction(engine, query, explanation.SETTINGS)
    if result.status != "ok":
        raise ValueError(result.message)

    def look() -> Choices:
        with queued_engine.hold_turn():
            return score_drafts(engine, query, result.hypotheses[0], explanation.drafts_of(result))

    key = (engine.full_digest, engine.dtype, query)
    choices = queued_engine.session_cached("_along_drafts", key, look)
    curve = engine.cost()
    name, wide = host.processor_name(), curve(9) / curve(1)
    about = f"Measured here ({name}, {engine.dtype}): a pass over nine tokens takes {wide:.2f} times as long as one."
    return Story(engine.task, result, choices, (*CLOCKS, Clock(HERE, about, curve)))


def choose_story() -> Story | None:
    """Draw the choice of a query; return its story, at first the recorded one, or None and show what is wrong."""
    state, names = st.session_state, queued_engine.model_names()
    if names and (named := BOX.follow_link(names)) is not None:
        state.learn_model = named or names[0]
        _ask(linked=False)
    with st.expander("Explain an answer of your own", expanded="learn_asked" in state):
        if not names:
            st.info("No model is installed yet. The page Models says how to add one.")
        else:
            _show_form(names)
    chosen = state.get("learn_asked")
    if chosen is None or chosen[0] not in names:
        return recorded_story()
    try:
        return tell_story(queued_engine.require_engine(chosen[0]), chosen[1])
    except ValueError as error:
        st.error(f"There is no such story: {escaping.plain_text(str(error))}.")
        return None


def _show_form(names: Sequence[str]) -> None:
    state = st.session_state
    if state.get("learn_model") not in names:
        state.learn_model = names[0]
    choose: Any = widgets.segmented_choice
    choose("Model", names, key="learn_model", hidden=True, format_func=_model_label, persist_state="session")
    text, read = BOX.show_box(task_of_model(state.learn_model) or "forward", on_submit=_ask)
    show_reading(text, read)
    with st.container(horizontal=True, gap="small"):
        st.button("Explain", key="learn_run", type="primary", on_click=_ask)
        if "learn_asked" in state:
            st.button("Back to the example", key="learn_back", type="tertiary", on_click=_forget)


def _model_label(name: str) -> str:
    task = task_of_model(name) or ""
    return TASK_LABELS.get(name) or f"{task.capitalize()}, with the model {name}" if task else name


def _ask(*, linked: bool = True) -> None:
    state = st.session_state
    read = formats.read_any(state.get("learn_text", ""), task=task_of_model(state.learn_model) or "forward")
    if isinstance(read, formats.Input):
        state.learn_asked = state.learn_link = (state.learn_model, read.smiles)
        if linked:
            st.query_params.from_dict({"task": state.learn_model, "smi": read.smiles})


def _forget() -> None:
    for name in ("learn_asked", "learn_link"):
        st.session_state.pop(name, None)
    BOX.set_text("")
    st.query_params.clear()


def show_story(story: Story) -> None:
    """Draw the scroll of an answer; where its trace cannot be explained, say why."""
    try:
        explained = explanation.explain_answer(story.result, story.task, choices=story.choices, clocks=story.clocks)
    except ValueError as error:
        st.error(f"There is no such story: {escaping.plain_text(str(error))}.")
        return
    data = {**explained, "colors": SPANS, "level": 2, "dark": theme.is_dark()}
    web_files.component("explain", HTML)(key="learn_story", data=data)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="learn_save"):
        page = partial(explained_page.explanation_page, explained)
        st.download_button(
            "Save as one page (HTML)", page, "answer.html", "text/html", key="learn_page", on_click="ignore"
        )
        for kind in ("gif", "webp"):
            film = partial(explained_page.explanation_film, story.result, explained["lead"], kind, dark=theme.is_dark())
            label, name = f"Film of 6 seconds ({kind.upper()})", f"answer.{kind}"
            st.download_button(label, film, name, f"image/{kind}", key=f"learn_{kind}", on_click="ignore")
    _show_depths(story)


def _show_depths(story: Story) -> None:
    """Offer the other two depths of the same answer: every pass, and seconds."""
    where = {"task": story.model, "smi": story.result.query}
    every, timed = st.columns(2, gap="medium")
    with every.container(border=True):
        st.subheader("Deeper: every pass")
        st.markdown(
            "Each draft of each pass, trees of drafts, beams that branch and end, relaxed searches, and where the "
            "model looks in the query."
        )
        if st.button("Step through this answer", key="learn_step", type="primary"):
            nav.open_page("step", **where, decoder="greedy", n="1", drafts="copy", length=str(explanation.DRAFT_LENGTH))
    with timed.container(border=True):
        st.subheader("Deeper: seconds on this computer")
        st.markdown("The same query with and without drafts, five times each by turns, with the clock running.")
        if st.button("Race this answer", key="learn_race", type="primary"):
            nav.open_page("speed", **where)
