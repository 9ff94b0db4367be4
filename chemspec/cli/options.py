"""What commands have in common: their options, and what turns these into values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec.cli import show
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, Task

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine
    from chemspec.evaluation.accuracy import Question


def option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text)


TaskOption = Annotated[str, option("forward (what forms?) or retro (what from?).", "--task", "-t")]
ModelOption = Annotated[
    str,
    option("Model folder, installed name or Hugging Face id (fetched before); default: the task's.", "--model", "-m"),
]
NOption = Annotated[int, option("Answers wanted.", "--n", "-n")]
DecoderOption = Annotated[str, option(f"auto, {', '.join(DECODERS)}; auto: greedy for one answer, else beam.")]
DrafterOption = Annotated[
    str, option(f"Who guesses ahead: {', '.join(DRAFTERS)}; never changes the answers of an exact decoder.")
]
ExactOption = Annotated[bool, option("Allow decoders that may differ from the standard.", "--exact/--relaxed")]
BatchOption = Annotated[int, option("Queries per model call.")]
LengthOption = Annotated[int, option("Most tokens of an answer.")]
DtypeOption = Annotated[str, option("auto, fp32, bf16 or fp16.")]
DeviceOption = Annotated[str, option("auto, cpu, cuda, cuda:1, ...")]
ThreadsOption = Annotated[int, option("CPU threads; 0: all cores.")]
RuntimeOption = Annotated[str, option("auto, native, onnx, torch or graphs.")]
TemplateOption = Annotated[str, option("What a Hugging Face model reads, {query} being the SMILES.")]
JsonOption = Annotated[bool, option("Machine-readable: the last line is one JSON document.", "--json")]
AugmentOption = Annotated[int, option("Decode so many spellings of each query and merge their answers; 1: off.")]
KeepOption = Annotated[bool, option("Keep the numbers in the model folder, for its card.", "--keep")]
SampleFloat = Annotated[float, option("For --decoder sample.")]
SampleInt = Annotated[int, option("For --decoder sample, and of the spellings of --augment.")]
SourceOption = Annotated[Path, option("Folder with the reaction CSVs.")]

DEFAULT = DecodeSettings()
DATA = Path("../shared/data")


def as_task(name: str) -> Task:
    if name not in ("forward", "retro"):
        raise ValueError(f"no task {name!r}; there are forward and retro")
    return name  # type: ignore[return-value]


def decode_settings(decoder: str, n: int, exact: bool, **others: Any) -> DecodeSettings:
    if decoder == "auto":
        decoder = "greedy" if n == 1 else "beam"
    settings = DecodeSettings(decoder=decoder, n=n, **others)
    if exact and not settings.exact:
        what = f"greedy with beta {settings.beta}" if decoder == "greedy" else f"decoder {decoder!r}"
        message = f"{what} is relaxed: its answers may differ from the standard ones"
        raise ValueError(f"{message}; add --relaxed")
    return replace(settings, n=1) if decoder == "greedy" else settings


def load(task: str, model: str, **options: Any) -> Engine:
    """The model asked for, or the task's; refused if it answers the other question."""
    from chemspec.engine.engine import Engine

    wanted = as_task(task) if task else None
    engine = Engine.load(model or as_task(task), task=wanted, **options)
    if task and engine.task != as_task(task):
        message = f"model {engine.name!r} is a {engine.task} model"
        raise ValueError(f"{message}; leave --task out or choose another model")
    if engine.confidence_problem:
        show.note(f"no confidence: {engine.confidence_problem}")
    return engine


def questions(source: Path, task: str, part: str = "test", **which: Any) -> list[Question]:
    """Reactions of the task's test or validation part ("val"), see `evaluate.questions`; of the latter none that a test
    has too."""
    from chemspec.evaluation import accuracy

    file, twins = source / f"{as_task(task)}_{part}.csv.gz", ("overlaps_test",)
    return accuracy.questions(file, as_task(task), leave_out=twins if part == "val" else (), **which)


def words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"--{option} is {text!r}; give numbers such as 5,10,25") from None
