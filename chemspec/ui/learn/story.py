"""The depth The idea of the page How it works: one answer as a scroll, a recorded one or one of the visitor's own."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import streamlit as st

from chemspec.asset_files import assets_folder
from chemspec.depict.colors import SPANS
from chemspec.engine.engine import Engine
from chemspec.engine.forks import score_drafts
from chemspec.replay import explained_page, explanation
from chemspec.replay.explanation import CLOCKS, Choices, Clock
from chemspec.system import host
from chemspec.types import DecodeResult, result_from_json
from chemspec.ui.common import escaping, queued_engine, theme, web_files

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

    @property
    def asked(self) -> tuple[str, str]:
        """The model, and the query."""
        return self.model, self.result.query


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


def show_story(chosen: tuple[str, str] | None) -> None:
    """Draw the scroll of the answer that a model gives to a query, or of the recorded one, or say why there is none."""
    try:
        story = tell_story(queued_engine.require_engine(chosen[0]), chosen[1]) if chosen else recorded_story()
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
            film = partial(explained_page.explanation_film, story.result, explained, kind, dark=theme.is_dark())
            label, name = f"Film of 6 seconds ({kind.upper()})", f"answer.{kind}"
            st.download_button(label, film, name, f"image/{kind}", key=f"learn_{kind}", on_click="ignore")
