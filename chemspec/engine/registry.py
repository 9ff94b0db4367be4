"""Find installed models and their drafters."""

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from chemspec.asset_files import assets_folder, further_models
from chemspec.draft.calibration import source_of_edits
from chemspec.draft.registry import DRAFTERS
from chemspec.importers import model_formats as importers
from chemspec.model import checkpoint
from chemspec.model.checkpoint import drafter_folder
from chemspec.model.weights import read_tensors
from chemspec.settings import Task
from chemspec.system.files import home_folder, make_private_folder, write_text_atomic

CHOSEN = "chosen.json"  # in the folder of fine-tuned models: by task which model predicts where none is named


def model_folder(name: str | Path) -> Path:
    """Return the folder or file of a model given by path or by the name of an installed one.

    Raises CheckpointError if there is none; the message lists the installed models.
    """
    path = Path(name)
    if path.is_dir():
        return path
    for home in model_homes():
        if (shipped := home / str(name)).is_dir() and (shipped / "config.json").is_file():
            return shipped
    if versions := own_versions(str(name)):
        return versions[-1]
    if (models_dir() / str(name)).is_dir():  # incomplete: loading it says what is missing
        return models_dir() / str(name)
    if path.is_file():
        return path
    if (importable := importers.find(str(name))) is not None:
        return importable
    names = ", ".join(folder.name for folder in installed_models()) or "none"
    raise checkpoint.CheckpointError(
        f"no model {str(name)!r}: neither a folder, a file nor one of the installed ones ({names})"
    )


def models_dir() -> Path:
    """Return the folder of the installed models: `CHEMSPEC_MODELS`, or `assets/models`."""
    if chosen := os.environ.get("CHEMSPEC_MODELS"):
        return Path(chosen)
    return assets_folder() / "models"


def model_homes() -> list[Path]:
    """Return the folders in which installed models lie: `models_dir`, what the package of further ones brings, own."""
    further = () if os.environ.get("CHEMSPEC_MODELS") else (further_models(), own_models_dir())
    return [home for home in (models_dir(), *further) if home and home.is_dir()]


def own_models_dir() -> Path | None:
    """Return the folder of fine-tuned models: `CHEMSPEC_MODELS`, or in CHEMSPEC_HOME; None without a home folder."""
    if chosen := os.environ.get("CHEMSPEC_MODELS"):
        return Path(chosen)
    with suppress(RuntimeError):
        return home_folder() / "models"
    return None


def own_versions(name: str) -> list[Path]:
    """Return the folders NAME-1, NAME-2, ... of a fine-tuned model, the newest last; another name has none."""
    home = own_models_dir()
    if home is None or not re.fullmatch(r"[\w-]+", name):
        return []
    numbers = (re.fullmatch(re.escape(name) + r"-(\d+)", path.name) for path in home.glob(f"{name}-*/"))
    return [home / match[0] for match in sorted(filter(None, numbers), key=lambda match: int(match[1]))]


def default_model(task: Task) -> str:
    """Return the model that predicts a task where none is named: a fine-tuned one that was chosen, or the shipped."""
    chosen = _chosen_models().get(task, "")
    return chosen if chosen and task_of_model(chosen) == task else task


def choose_model(task: Task, name: str) -> None:
    """Let a model predict a task where none is named; the task's own name goes back to the shipped one."""
    home = own_models_dir()
    if home is None:
        raise ValueError("there is no folder for own models; set CHEMSPEC_HOME")
    make_private_folder(home)
    write_text_atomic(home / CHOSEN, json.dumps({**_chosen_models(), task: name}), private=True)


def _chosen_models() -> dict[str, str]:
    home = own_models_dir()
    try:
        chosen = json.loads((home / CHOSEN).read_text(encoding="utf-8")) if home else {}
    except (OSError, ValueError):
        return {}
    return {str(task): str(name) for task, name in chosen.items()} if isinstance(chosen, dict) else {}


def installed_models() -> list[Path]:
    """Return the folders of the installed models."""
    folders = (folder for home in model_homes() for folder in home.iterdir())
    return sorted((folder for folder in folders if (folder / "config.json").is_file()), key=lambda folder: folder.name)


def task_of_model(name: str | Path) -> Task | None:
    """Return the task of a model without loading it; None if its config does not contain one."""
    try:
        return checkpoint.read_config(model_folder(name))[0]
    except checkpoint.CheckpointError:
        return None  # errors are reported when the model is loaded


def describe_installed_models() -> list[dict[str, Any]]:
    """Return name, task ("unusable" without one), size in MB, source of edits and folder of the installed models."""
    rows = []
    for folder in installed_models():
        task = task_of_model(folder) or "unusable"  # one bad folder must not hide the others
        size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) / 1e6
        row = {"name": folder.name, "task": task, "mb": round(size, 1), "edits": source_of_edits(folder, task)}
        rows.append({**row, "folder": str(folder)})
    return rows


def usable_drafters(folder: Path) -> tuple[str, ...]:
    """Return the drafters whose learned models are all in a model's folder, in the order of the registry."""
    return tuple(
        spec.name
        for spec in DRAFTERS.values()
        if all((drafter_folder(folder, kind) / "config.json").is_file() for kind in spec.companions)
    )


def drafter_megabytes(folder: Path, drafter: str) -> float:
    """Return the size of a drafter's weights in fp32 in megabytes (as in Xia et al. 2023, tables 8 and 9)."""
    return sum(weights_megabytes(drafter_folder(folder, kind)) for kind in DRAFTERS.lookup(drafter).companions)


def weights_megabytes(folder: Path) -> float:
    """Return the size of a model's or a drafting network's weights in fp32 in megabytes."""
    return 4 * sum(tensor.size for tensor in read_tensors(folder / "model.safetensors").values()) / 1e6
