"""Answers while a visitor types: the product of a flask, or the disconnections of a target, as safe HTML.

The box (`assets/web/question.js`) requests one after a pause in typing, by a route of the app's server, past Streamlit,
whose pages take longer to run than the model. A preview takes a turn only where no prediction runs or waits.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from chemspec.chem import formats
from chemspec.chem.reading.names.reagents import name_in_list
from chemspec.depict.schemes import Side, side_molecules
from chemspec.engine.engine import Engine
from chemspec.engine.registry import model_folder
from chemspec.review.suggestions import format_percent, group_answers
from chemspec.settings import DecodeSettings, Task
from chemspec.ui.common import queued_engine, scheme
from chemspec.ui.common.escaping import Html, join, tag

MAX_CHARS = 1000  # characters of a text that is worth a preview
WAIT_SECONDS = 0.2  # time to wait for a turn
CACHED = 200  # previews: who deletes the last letters is shown what was there
DISCONNECTIONS = 3
SETTINGS: dict[Task, DecodeSettings] = {
    "forward": DecodeSettings(decoder="greedy", n=1, distinct=True),
    "retro": DecodeSettings(decoder="beam", n=DISCONNECTIONS, distinct=True),
}
_cache: dict[tuple[object, ...], str] = {}


def preview_html(text: str, task: str, model: str = "", *, dark: bool = False) -> str:
    """Return the preview of a text; empty where it is unfinished, the model is not loaded yet, or others wait."""
    read = formats.read_input(text, task=task) if task in SETTINGS and text.strip() and len(text) <= MAX_CHARS else None
    if not isinstance(read, formats.Input) or read.other:
        return ""
    engine = _loaded_engine(task, model)
    if engine is None:
        return ""
    key = engine.digest, read.ordered, dark
    if key not in _cache:
        with queued_engine.shared_queue().take_free_turn(WAIT_SECONDS) as free:
            if not free:
                return ""
            result = engine.predict(read.ordered, SETTINGS[engine.task])
        html = _draw(engine.task, read.ordered, result, dark=dark) if result.status == "ok" else ""
        while len(_cache) >= CACHED:
            _cache.pop(next(iter(_cache)), None)
        _cache[key] = html
    return _cache[key]


def _loaded_engine(task: Any, model: str) -> Engine | None:
    names = queued_engine.model_names(task)
    chosen = model if model in names else next(iter(names), "")
    return queued_engine.loaded_engines().get(model_folder(chosen)) if chosen else None


def _draw(task: Task, query: str, result: Any, *, dark: bool) -> Html:
    rows = []
    for card in group_answers(task, query, result)[:DISCONNECTIONS]:
        if not card.best.valid:
            continue
        name = f"gives {name_in_list(card.best.canonical)}" if task == "forward" else card.name
        head = tag("p", tag("span", name), tag("b", format_percent(card.probability) if card.calibrated else ""))
        rows.append(tag("div.row", head, _molecules(card.best.canonical, dark=dark)))
    return tag("div.preview-rows", *rows) if rows else join()


@lru_cache(maxsize=CACHED)
def _molecules(smiles: str, *, dark: bool) -> Html:
    figures: Sequence[Html] = [
        scheme.picture_html(drawing.data_uri, f"drawing of {drawing.smiles}") or tag("code", drawing.smiles)
        for _, drawing in side_molecules(Side(smiles), dark=dark)
    ]
    return tag("div.molecules", Html(tag("span", "+").join(figures)))
