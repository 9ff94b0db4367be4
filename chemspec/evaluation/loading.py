"""Load the models of an answer: in the fastest precision that is as accurate, those that check it, and warmed up."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

from chemspec.engine.engine import Engine
from chemspec.engine.registry import default_model, installed_models, model_folder
from chemspec.evaluation.measurements import int8_is_usable
from chemspec.model.runtime import RuntimeConfig
from chemspec.settings import DecodeSettings, Task

COMPANIONS: tuple[Task, ...] = ("forward", "reagents")  # tasks of the models that check precursors


class FastestOptions(TypedDict, total=False):
    """Options of `load_fastest`."""

    device: str
    dtype: str
    threads: int


def load_engines(
    tasks: Iterable[Task] = ("retro", *COMPANIONS), **options: Unpack[FastestOptions]
) -> dict[Task, Engine]:
    """Load the models that predict these tasks where none is named; tasks without one are left out.

    Options are those of `Engine.load`. The precision is by default int8 on a CPU if the model's card shows the same
    accuracy.
    """
    names = {folder.name for folder in installed_models()}
    return {task: load_fastest(name, **options) for task in tasks if (name := default_model(task)) in names}


def load_fastest(
    name: str | Path, *, device: str = "auto", dtype: str = "auto", threads: int = 0, task: Task | None = None
) -> Engine:
    """Load a model; by default in int8 on a CPU, if its card allows it and the compiled kernel is available."""
    load = partial(Engine.load, name, task=task, device=device, threads=threads)
    on_cpu = RuntimeConfig.find(device=device, dtype="auto", runtime="auto", threads=threads).device == "cpu"
    if dtype == "auto" and on_cpu and int8_is_usable(model_folder(name)):
        with suppress(ValueError):  # there may be no compiled kernel
            return load(dtype="int8")
    return load(dtype=dtype)


def warm_up(engine: Engine) -> None:
    """Do what a first answer would wait for: measure the cost of passes, and decode a short query."""
    engine.cost()  # measured once per machine and cached on disk
    for decoder in ("greedy", "beam"):
        engine.predict(["CCO"], DecodeSettings(decoder=decoder, n=1 + (decoder == "beam"), max_len=8))
