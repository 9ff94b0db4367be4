"""Options of commands: help texts, groups of options, and functions that parse and load what they name."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec import settings, tasks
from chemspec.engine.options import loading_options
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings
from chemspec.terminal import console, documented_options

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine
    from chemspec.question_text import QuestionText

DEFAULT = DecodeSettings()

# Help texts of options with the same name and meaning in several commands, written like the section "Options".
SHARED = (
    Path(__file__)
    .with_suffix(".txt")
    .read_text(encoding="utf-8")
    .format(tasks=tasks.task_questions(), decoders=", ".join(DECODERS), drafters=", ".join(DRAFTERS))
)


def parse_duration(text: str | float) -> float:
    """Return the seconds of a duration such as 50ms, 5s or 2 (seconds)."""
    return _parse_quantity(text, {"ms": 0.001, "s": 1.0, "min": 60.0, "": 1.0}, "duration; give one such as 50ms or 5s")


def parse_mass(text: str | float) -> float:
    """Return the grams of a mass such as 250mg, 5g or 1.5kg."""
    return _parse_quantity(text, {"mg": 0.001, "g": 1.0, "kg": 1000.0}, "mass; give one such as 250mg or 5g")


def _parse_quantity(text: str | float, units: Mapping[str, float], what: str) -> float:
    """Return a positive number with a unit, times what the unit is worth."""
    match = re.fullmatch(rf"(\d+(?:\.\d*)?|\.\d+)\s*({'|'.join(units)})", str(text).strip())
    value = float(match[1]) * units[match[2]] if match else 0.0
    if not 0 < value < float("inf"):
        raise typer.BadParameter(f"{text!r} is no {what}")
    return value


Mass = Annotated[float | None, typer.Option(parser=parse_mass, metavar="MASS")]
Duration = Annotated[float | None, typer.Option(parser=parse_duration, metavar="TIME")]
Source = settings.ReactionFolder


expand_options = partial(documented_options.expand_options, shared=documented_options.documented_texts(SHARED))


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Where a model runs, and with which precision."""

    dtype: str = "auto"
    device: str = "auto"
    threads: int = 0

    def load(self, task: str, model: str, **options: Any) -> Engine:
        """Load a model; see `load_engine`."""
        return load_engine(task, model, **self.loading, **options)

    @property
    def loading(self) -> dict[str, Any]:
        """Options of `Engine.load`."""
        return loading_options(self)


@dataclass(frozen=True, kw_only=True)
class Runtime(Hardware):
    """Where and how a model runs."""

    runtime: str = "auto"


@dataclass(frozen=True, kw_only=True)
class ImportedRuntime(Runtime):
    """Where and how a model of any format runs."""

    template: str = ""


def build_decode_settings(decoder: str, n: int, exact: bool, drafter: str = "auto", **others: Any) -> DecodeSettings:
    """Return decoding settings; a relaxed decoder requires `exact` to be false."""
    others["drafter"] = DRAFTERS.load(drafter)
    return settings.decode_settings(DECODERS.load(decoder), n, exact=exact, remedy="add --relaxed", **others)


def require_model(task: str, model: str) -> None:
    """Raise ValueError if neither a task nor a model is given."""
    if not task and not model:
        raise ValueError(f"choose a task: --task {tasks.task_questions()}, or choose a model with --model")


def chosen_model(task: str, model: str) -> str:
    """Return the model to predict with: the one that is named, else the task's, with a note if that was chosen."""
    if model or not task:
        return model
    from chemspec.engine.registry import default_model

    if (chosen := default_model(tasks.check_task(task))) != task:
        console.print_note(f"model: {chosen}, as chosen; --model {task} for the shipped one")
    return chosen


def load_engine(task: str, model: str, **options: Any) -> Engine:
    """Load the model that is named, else the task's, with a note if that was chosen."""
    from chemspec.engine.engine import Engine

    require_model(task, model)
    model = chosen_model(task, model)
    task_name = tasks.check_task(task) if task else None
    engine = Engine.load(model or task, task=task_name, **options)
    if engine.confidence_problem:
        console.print_note(f"no confidence: {engine.confidence_problem}")
    return engine


def read_question(given: Sequence[str] | None, command: str) -> QuestionText | None:
    """Return the question of a `chemspec:` text, if that is given; ValueError for one of another command."""
    from chemspec import question_text

    if not given or len(given) != 1 or not question_text.is_question(given[0]):
        return None
    question = question_text.read_question(given[0])
    if question.page != command:
        raise ValueError(f"this text is for another command; give it to `chemspec {question.page}`")
    return question


def check_parent_folders(*files: Path | None) -> None:
    """Raise a ValueError for output files in missing folders, before any work is done."""
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise ValueError(f"{file}: there is no folder {file.parent}; make it first")


def command_line() -> str:
    """Return the command as typed, to record how a measurement was made."""
    program = f"python {sys.argv[0]}" if sys.argv[0].endswith(".py") else "chemspec"
    return " ".join([program, *sys.argv[1:]])
