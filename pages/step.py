"""Step through a decode, pass by pass."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from chemspec import chem
from chemspec.engine.engine import Engine
from chemspec.model.checkpoint import CheckpointError
from chemspec.types import DecodeResult, to_json
from chemspec.ui import nav, safe, serve, stairs, stepform, theatre
from chemspec.ui.story import story


def body() -> None:
    title, saving, opening = st.columns([5, 1.2, 1.6], vertical_alignment="bottom")
    title.title("Step through")
    with opening:
        stepform.upload()
    names = serve.models()
    shown = stepform.current(names)
    if shown is None:
        stepform.welcome(names)
    elif isinstance(shown, DecodeResult):
        tell(shown, saving)
    else:
        answer(shown, saving)


def answer(asked: stepform.Question, saving: DeltaGenerator) -> None:
    """Ask the model and show what it did, or what is wrong with the query."""
    try:
        engine = serve.engine(asked.model)
    except CheckpointError as error:
        st.error("The model cannot be loaded.")
        st.code(str(error), language=None, wrap_lines=True)
        return
    line = st.empty()
    try:
        result = serve.answer(engine, asked.query, asked.settings, report=line.caption)
    except ValueError as error:  # as for drafts that are longer than the drafter can write
        line.empty()
        st.error(f"It cannot be written so: {safe.plain(str(error))}")
        return
    line.empty()
    if result.status == "ok":
        tell(result, saving, engine, asked)
        return
    st.error("This query cannot be answered; see below what is wrong with it.")
    fault = chem.read_query(asked.query, engine.task)
    where = "\n\n" + chem.pointer(asked.query, fault) if isinstance(fault, chem.Fault) else ""
    st.code(result.message + where, language=None)


def tell(
    result: DecodeResult,
    saving: DeltaGenerator,
    engine: Engine | None = None,
    asked: stepform.Question | None = None,
) -> None:
    """The theatre, the file to save, the charts."""
    try:
        told = story(result)
    except ValueError as error:
        st.error(f"This trace cannot be shown: {error}.")
        return
    text, name, kind = to_json(result), "chemspec-trace.json", "application/json"
    saving.download_button("Save trace", text, name, kind, on_click="ignore", width="stretch")
    if asked is None:
        st.caption(
            "Opened from a file. Its model, settings and times are those of the machine that saved it."
        )
    theatre.theatre(result, told)
    passes, time, places = st.columns(3)
    with passes:
        st.markdown("##### Against passes")
        stairs.against_passes(told)
    with places:
        st.markdown("##### How far drafts hold")
        stairs.by_place(told)
    with time:
        st.markdown("##### Against time")
        slow = None
        if engine and asked:
            line = st.empty()
            result, slow = stairs.measured(engine, asked.query, asked.settings, report=line.caption)
            line.empty()
        stairs.against_time(told, result, slow)


nav.page(body)
