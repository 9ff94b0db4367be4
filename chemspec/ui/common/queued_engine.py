"""The engines of the app: one per model, shared by all visitors through a queue.

A page decodes in its own script thread and reports progress with a Streamlit call at every few passes. A click or a
closed tab ends a script at its next Streamlit call, so a prediction can be stopped between any two passes, and its turn
passes on.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import streamlit as st

from chemspec import tasks
from chemspec.chem import formats
from chemspec.chem.molecules import parsing
from chemspec.engine import registry
from chemspec.engine.engine import Engine
from chemspec.engine.registry import installed_models, model_folder
from chemspec.evaluation.loading import load_fastest, warm_up
from chemspec.model.checkpoint import CheckpointError
from chemspec.plugins import DRAFTERS
from chemspec.precedents import installed_if_usable
from chemspec.settings import DecodeSettings, Task
from chemspec.stock.lists import default_lists
from chemspec.system.fair_queue import BusyError, FairQueue
from chemspec.types import DecodeResult
from chemspec.ui.common import escaping, login, stock_menu

MAX_ANSWERS = 50
REPORT_SECONDS = 0.1  # seconds between two reports of progress
QUEUE_SECONDS = 0.25  # time for each one ahead between two reports of a position, at which a browser draws

Report = Callable[[str], object]  # shows one line
T = TypeVar("T")


@st.cache_resource(show_spinner=False)
def shared_queue() -> FairQueue:
    """Return the queue that all visitors share."""
    return FairQueue()


@st.cache_resource(show_spinner=False)
def loaded_engines() -> dict[Path, Engine]:
    """Return the loaded engines by folder."""
    return {}


def load_engine(name: str) -> Engine:
    """Return the engine of a model, loaded at first use; raises CheckpointError if it cannot be loaded."""
    folder = model_folder(name)
    with st.spinner("Loading the model …") if folder not in loaded_engines() else nullcontext():
        loaded_engines()[folder] = loaded = _load_and_warm(folder, _folder_stamp(folder))
    return loaded


def engine_or_message(name: str) -> Engine | None:
    """Return the engine of a model; where it cannot be loaded, show why and return None."""
    try:
        return load_engine(name)
    except (CheckpointError, ValueError) as error:
        st.error(f"The model {escaping.plain_text(name)} cannot be used: {escaping.plain_text(str(error))}")
        return None


def find_engine(task: Task) -> QueuedEngine | None:
    """Return the engine of a task's first model; None without one, or, with a message, if it cannot be loaded."""
    engine = engine_or_message(names[0]) if (names := model_names(task)) else None
    return QueuedEngine(engine) if engine else None


def require_engine(name: str) -> Engine:
    """Return the engine of a model; where it cannot be loaded, show why and end the page."""
    return engine_or_message(name) or st.stop()


def _folder_stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return a cache key that changes with the files of a model."""
    files = sorted(folder.iterdir()) if folder.is_dir() else [folder]
    return tuple((file.name, (about := file.stat()).st_mtime_ns, about.st_size) for file in files if file.is_file())


@st.cache_resource(show_spinner=False, max_entries=16)
def _load_and_warm(folder: Path, stamp: object) -> Engine:  # noqa: ARG001 - the stamp is for the cache
    loaded = load_fastest(str(folder))
    with shared_queue().wait_for_turn():
        warm_up(loaded)
    return loaded


@st.cache_resource(show_spinner=False)
def warm_up_models() -> Thread:
    """Load a model of each task, and what else a first answer needs, in the background, once per server process."""

    def load_all() -> None:
        parsing.SANDBOX.start()
        for spec in sorted(tasks.TASKS.values(), key=lambda spec: spec.whole):  # the tasks of the first page first
            for name in model_names(spec.name)[:1]:
                with suppress(CheckpointError, ValueError):  # the page that needs it says why
                    folder = model_folder(name)
                    loaded_engines().setdefault(folder, _load_and_warm(folder, _folder_stamp(folder)))
        stock_menu.stock_of_lists(default_lists())
        installed_if_usable()
        formats.read_input("aniline, K2CO3", task="forward")  # reads the tables of names
        # Streamlit collects garbage after every run of a script: a third of a server's time under load, were it to go
        # through all that stays loaded anyway.
        gc.collect()
        gc.freeze()

    thread = Thread(target=load_all, daemon=True, name="load models")
    if os.environ.get("CHEMSPEC_WARM_UP", "1") != "0":
        thread.start()
    return thread


def model_names(task: Task | None = None) -> list[str]:
    """Return the models of a task (any task on molecules without one), first the one to predict where none is named."""
    allowed = (task,) if task else (*tasks.about_molecules(), None)
    names = [folder.name for folder in installed_models() if registry.task_of_model(folder) in allowed]
    first = registry.default_model(task) if task else None
    return sorted(names, key=lambda name: (name != first, name != task, name))


def usable_drafters(model: str) -> tuple[str, ...]:
    """Return the drafters that a model can use; all of them without a model."""
    return registry.usable_drafters(model_folder(model)) if model else tuple(DRAFTERS)


def decode_query(
    model: Engine, query: str, settings: DecodeSettings, *, report: Report | None = None, waiting: Report | None = None
) -> DecodeResult:
    """Decode one query after waiting in the queue.

    `report` gets a line to show while waiting and decoding, and should make one Streamlit call, which also lets the
    visitor stop; `waiting` gets it while waiting only: what is timed must not be interrupted.
    """
    say = report or (lambda _: None)
    last = time.monotonic()
    with hold_turn(waiting=position_report(waiting or say)):
        written, passes = 0, 0
        for event in model.stream(query, settings):
            if isinstance(event, DecodeResult):
                return event
            written, passes = written + event.emitted, passes + 1
            if time.monotonic() - last >= REPORT_SECONDS:
                last = time.monotonic()
                say(f"{written} tokens written in {passes} passes")
    raise RuntimeError("the engine returned nothing")


def position_report(report: Report) -> Callable[[int], None]:
    """Return what to call with the position in the queue: reports a new one, the more rarely the longer the queue."""
    shown, at = -1, float("-inf")

    def show(ahead: int) -> None:
        nonlocal shown, at
        if ahead != shown and time.monotonic() - at >= max(1.0, QUEUE_SECONDS * ahead):
            shown, at = ahead, time.monotonic()
            report(f"In queue: {ahead} ahead of you")
        else:
            _ = "_answers" in st.session_state  # ends the script if the visitor has stopped it, and draws nothing

    return show


@dataclass(frozen=True)
class QueuedEngine:
    """An engine that waits for its turn at every call, so that visitors share the machine."""

    engine: Engine

    @property
    def full_digest(self) -> str:
        """Of weights and vocabulary."""
        return self.engine.full_digest

    @property
    def dtype(self) -> str:
        """The precision."""
        return self.engine.dtype

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        """Predict after waiting in the queue."""
        with hold_turn():
            return self.engine.predict(queries, settings)


@contextmanager
def hold_turn(**options: Any) -> Iterator[None]:
    """Wait for a turn; where too many wait, the page says so and ends."""
    with ExitStack() as stack:
        try:
            stack.enter_context(shared_queue().wait_for_turn(visitor=login.visitor_id(), **options))
        except BusyError as error:
            st.error(f"The server is busy: {error}.", icon="⏳")
            st.stop()
        yield


def cached_prediction(
    model: Engine, query: str, settings: DecodeSettings, *, report: Report | None = None
) -> DecodeResult:
    """Decode one query, or return the session's cached result: a page is run again at every click."""
    key = (model.full_digest, model.dtype, query, settings)
    result = session_cached("_answers", key, lambda: decode_query(model, query, settings, report=report))
    if result.status == "failed":  # another time it may go well
        st.session_state["_answers"].pop(key, None)
    return result


def session_cached(name: str, key: Hashable, make: Callable[[], T], *, most: int = 100) -> T:
    """Return a value cached in the visitor's session, made at first use; the oldest entries are dropped."""
    cache: dict[Hashable, T] = st.session_state.setdefault(name, {})
    if key not in cache:
        cache[key] = make()
        while len(cache) > most:
            cache.pop(next(iter(cache)))
    return cache[key]
