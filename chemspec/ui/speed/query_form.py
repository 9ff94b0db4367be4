"""What is measured on the page Speed: model, query and the settings of the race."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from chemspec.chem import formats
from chemspec.engine.engine import Engine
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.replay import timing
from chemspec.settings import DecodeSettings
from chemspec.ui.common import escaping, query_box, queued_engine, widgets
from chemspec.ui.common.query_box import TASK_LABELS, QueryText, linked_query, show_reading, warn_unknown_model

BOX = QueryText("speed")


def choose_model() -> str:
    """Draw the choice of a model and return its name, at first the retro model; empty if none is installed."""
    names = queued_engine.model_names(here=True)
    if not names:
        return ""
    _follow_link(names)
    state = st.session_state
    if state.get("speed_model") not in names:
        state.speed_model = "retro" if "retro" in names else names[0]  # where most of an answer is copied
    return widgets.segmented_choice(
        "Question",
        names,
        format_func=_model_label,
        key="speed_model",
        hidden=True,
        persist_state="session",
        on_change=_model_changed,
    )


def _model_label(name: str) -> str:
    """Return the question that a model answers, of a second model with its name."""
    task = queued_engine.task_of_model(name) or ""
    return TASK_LABELS.get(name) or f"{task.capitalize()} by {name}".strip()


def choose_query(model: Engine) -> str:
    """Draw the query box; return the query as SMILES, or an empty text and show why the model cannot use it."""
    state = st.session_state
    if "speed_text" not in state:
        state.speed_text = query_box.load_examples(model.task)[0].smiles
    text, read = BOX.show_box(model.task, on_typed=BOX.store_text, on_submit=_query_submitted)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="speed_examples"):
        st.caption("Examples", width="content")
        for example in query_box.load_examples(model.task):
            key, name = f"speed_example_{example.name}", example.name
            st.button(name, key=key, help=example.line, on_click=BOX.set_text, args=(example.smiles,))
    show_reading(text, read)
    if not isinstance(read, formats.Input):
        if read is None:
            st.info("Type or paste a molecule above, or choose an example.")
        return ""
    ready = model.prepare(read.smiles)
    if ready.refusal:
        st.error(escaping.plain_text(ready.refusal.message))
        return ""
    state.speed_link = (model.name, read.smiles)
    if dict(st.query_params) != {"task": model.name, "smi": read.smiles}:
        st.query_params.from_dict({"task": model.name, "smi": read.smiles})
    return read.smiles


def _follow_link(names: list[str]) -> None:
    state = st.session_state
    linked = linked_query()
    if linked[1] and linked != state.get("speed_link"):
        state.speed_link = linked
        BOX.set_text(linked[1])
        if linked[0] in names:
            state.speed_model = linked[0]
        elif linked[0]:
            warn_unknown_model(linked[0])


def _query_submitted(text: str) -> None:
    BOX.store_text(text)
    st.session_state.speed_race_start_go = True


def _model_changed() -> None:
    """Another model: an example of the old task makes no sense for it, a visitor's own text may."""
    if st.session_state.get("speed_text") in {example.smiles for example in query_box.load_examples()}:
        BOX.set_text("")
        del st.session_state["speed_text"]


MAX_ANSWERS = 50  # of a timed search: as many as the page Predict searches
DECODER_HELP = (
    "Greedy writes the best token at every step. Beam search keeps the n best texts. Both are exact: drafts never "
    "change the answer. SBS (Andronov et al. 2024) is relaxed: its drafts can change the answers."
)
_KEY = "speed_lane1"  # in the session: the settings of the lane with drafts


def choose_lanes(offered: Sequence[str]) -> tuple[DecodeSettings, DecodeSettings]:
    """Draw the widgets of a race; return its lanes: standard decoding, and the same search with a chosen drafter."""
    state = st.session_state
    line = st.empty()
    keep: Any = {"persist_state": "session"}
    with st.expander("Settings"):  # a label that changed would close it
        parts = st.columns([1.3, 0.8, 1.3, 1, 1], vertical_alignment="bottom")
        decoder = parts[0].selectbox(
            "Decoder",
            comparable_decoders(),
            format_func=lambda name: DECODERS[name].label,
            help=DECODER_HELP,
            key=f"{_KEY}_decoder",
            **keep,
        )
        state.setdefault(f"{_KEY}_n", 5)
        greedy = decoder == "greedy"
        n = parts[1].number_input("Answers", 1, MAX_ANSWERS, key=f"{_KEY}_n", disabled=greedy, **keep)
        if state.get(f"{_KEY}_drafter") not in offered:
            state[f"{_KEY}_drafter"] = "auto"  # nothing was chosen yet, or for another model
        drafter = parts[2].selectbox(
            "Drafter",
            [name for name in offered if name != "none"],
            format_func=lambda name: DRAFTERS[name].title,
            help="Drafting method. The page How it works compares them.",
            key=f"{_KEY}_drafter",
            **keep,
        )
        about = "Maximum, in tokens; 0 leaves it to the drafter."
        length = parts[3].number_input("Draft length", 0, 100, key=f"{_KEY}_length", help=about, **keep)
        about = "Maximum number of drafts in a pass; 0 leaves it to the drafter."
        count = parts[4].number_input("Drafts", 0, 100, key=f"{_KEY}_count", help=about, **keep)
    if drafter == "auto" and DECODERS[decoder].default_drafter != "auto":
        length = count = 0  # sizes have no effect there
    drafted = DecodeSettings(
        decoder=decoder,
        n=1 if greedy else int(n),
        drafter=drafter,
        drafting="fixed" if length or count else "planned",  # chosen sizes are used as they are
        draft_length=int(length),
        draft_count=int(count),
    )
    lanes = (timing.standard_of(drafted), drafted)
    line.markdown("**" + "** against **".join(map(timing.setting_name, lanes)) + "**")
    return lanes


def race_against_standard(settings: DecodeSettings) -> None:
    """Race these settings against standard decoding as soon as the page Speed opens."""
    decoder = settings.decoder if settings.decoder in comparable_decoders() else "greedy"
    drafter = "auto" if settings.drafter == "none" else settings.drafter
    lane = {"decoder": decoder, "n": min(settings.n, MAX_ANSWERS), "drafter": drafter, "length": 0, "count": 0}
    st.session_state.update({f"{_KEY}_{field}": value for field, value in lane.items()}, speed_race_start_go=True)


def comparable_decoders() -> list[str]:
    """Return the decoders whose answers depend on nothing but the query, greedy first: others cannot be compared."""
    specs = sorted(DECODERS.values(), key=lambda spec: spec.name != "greedy")
    return [spec.name for spec in specs if not spec.random]
