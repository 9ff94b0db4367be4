"""Options of commands: help texts, groups of options, and functions that parse and load what they name."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec import settings, tasks
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings
from chemspec.terminal import console, documented_options

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine

DEFAULT = DecodeSettings()

# Help texts of options with the same name and meaning in several commands, written like the section "Options".
SHARED = f"""
    task -t: {tasks.task_questions()}.
    model -m: model: folder, checkpoint, installed name, or id of a downloaded Hugging Face model; default: the task's.
    n -n: number of predictions per query.
    decoder: decoder: auto, {", ".join(DECODERS)}; auto: greedy for -n 1, else beam. Also file.py:NAME or module:NAME, a
        DecoderSpec.
    drafter: drafting method: {", ".join(DRAFTERS)}; does not change the output of exact decoders. Also file.py:NAME or
        module:NAME, a function that proposes drafts.
    exact --exact/--relaxed: --exact: decoders with the output or distribution of standard decoding; --relaxed: all.
    batch_size: queries decoded together.
    distinct: list distinct valid molecules other than the query; widens the search to find -n.
    max_len: maximum length of a prediction in tokens.
    dtype: precision: auto (fp32), fp32, int8, bf16 or fp16.
    device: device: auto, cpu, cuda, cuda:1, ...
    threads: CPU threads; 0: all cores.
    runtime: runtime: auto (graphs on a GPU, native on a CPU), native, torch or graphs.
    template: prompt template of an imported model, with {{query}} for the SMILES.
    column: input column with the SMILES; "a>>b" joins two columns.
    stock -s: building blocks: a file of SMILES or InChIKeys, with or without prices, or a built-in list; repeatable.
    source: folder with the reaction CSVs.
    recipe: recipe: a name (see `chemspec train --list`) or a .toml file.
    workers: number of processes.
    limit: maximum number of rows read from each file, for a trial run (0: all).
    seed: random seed for sampling queries.
    keep_numbers --keep: store the numbers in the model folder, for its card.
    allowed_host: additional host name of this server, such as a proxy's; repeatable; * allows any.
    as_json --json: print one JSON document as the last line.
"""


def parse_duration(text: str | float) -> float:
    """Return the seconds of a duration such as 50ms, 5s or 2 (seconds)."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min)?", str(text).strip())
    seconds = float(match[1]) * {"ms": 0.001, "min": 60.0}.get(match[2] or "s", 1.0) if match else 0.0
    if not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"{text!r} is no duration; give one such as 50ms or 5s")
    return seconds


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
        return settings.loading_options(self)


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


def load_engine(task: str, model: str, **options: Any) -> Engine:
    """Load the requested model, or the task's default."""
    from chemspec.engine.engine import Engine

    task_name = tasks.check_task(task) if task else None
    engine = Engine.load(model or task_name or tasks.check_task(task), task=task_name, **options)
    if engine.confidence_problem:
        console.print_note(f"no confidence: {engine.confidence_problem}")
    return engine


def check_parent_folders(*files: Path | None) -> None:
    """Raise a ValueError for output files in missing folders, before any work is done."""
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise ValueError(f"{file}: there is no folder {file.parent}; make it first")


def command_line() -> str:
    """Return the command as typed, to record how a measurement was made."""
    program = f"python {sys.argv[0]}" if sys.argv[0].endswith(".py") else "chemspec"
    return " ".join([program, *sys.argv[1:]])
