"""Load the models of a review as the app does: in int8 where that is as accurate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from chemspec import evaluation
from chemspec.engine.engine import Engine
from chemspec.engine.registry import installed_models, model_folder
from chemspec.model.runtime import RuntimeConfig
from chemspec.settings import Task

TASKS_OF_A_REVIEW: tuple[Task, ...] = ("retro", "forward", "reagents")


def load_engines(tasks: Iterable[Task] = TASKS_OF_A_REVIEW, **options: Any) -> dict[Task, Engine]:
    """Load the installed models named like these tasks; others are left out.

    Options are those of `Engine.load`; the precision is by default int8 on a CPU if the model's card shows the same
    accuracy.
    """
    names = {folder.name for folder in installed_models()}
    return {task: load_fastest(task, **options) for task in tasks if task in names}


def load_fastest(
    name: str, *, load: Callable[..., Engine] = Engine.load, device: str = "auto", dtype: str = "auto", threads: int = 0
) -> Engine:
    """Load a model; by default in int8 on a CPU, if its card allows it and the compiled kernel is available."""
    options = {"device": device, "threads": threads}
    on_cpu = RuntimeConfig.find(device=device, dtype="auto", runtime="auto", threads=threads).device == "cpu"
    if dtype == "auto" and on_cpu and evaluation.usable_precisions(model_folder(name))[0] == "int8":
        with suppress(ValueError):  # without the compiled kernel
            return load(name, dtype="int8", **options)
    return load(name, dtype=dtype, **options)
