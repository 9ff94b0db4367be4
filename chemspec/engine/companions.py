"""Install a trained drafter in a model's folder, and say where a missing one is to be found."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import get_args

from chemspec.engine.registry import installed
from chemspec.importers import own
from chemspec.model import checkpoint
from chemspec.settings import NetworkKind
from chemspec.system.untrusted import read_untrusted_json

FOLDER = "drafters"
SMALL_MODELS = ("ar", "medium")  # ordinary model folders that draft for a larger model of the same vocabulary
FILES = ("config.json", "model.safetensors", "vocab.json", "card.md")


def missing_drafter(name: str, task: str, kind: str, folder: Path) -> str:
    """Return an error message: which models have the drafter that this one lacks, or how to get one.

    Args:
        name: the model.
        task: what it predicts.
        kind: the drafter's.
        folder: where the drafter would lie.
    """
    from chemspec.train.recipe import builtin_recipes

    owners = [
        f"`-m {model.name}`"
        for model in installed()
        if (model / FOLDER / kind / "config.json").is_file() and checkpoint.read_task(model) == task
    ]
    recipe = f"{task}-{kind.replace('_', '-')}"
    if owners:
        advice = f"{' and '.join(owners)} has one"
    elif recipe in builtin_recipes():
        advice = f"train one with `chemspec train --recipe {recipe}`, install it with `chemspec train install-drafter`"
    else:
        advice = "no recipe trains one"
    return f"there is no drafter {kind!r} for model {name!r} ({folder} is missing); {advice}, or choose another drafter"


def trained_drafter(folder: Path, kind: str = "") -> tuple[Path, str]:
    """Return the folder of a trained drafter, and its kind.

    Args:
        folder: the drafter's, or the run folder of the training that made it.
        kind: "ar" or "medium", of a small model that is to serve as such.

    Raises:
        ValueError: if there is no drafter, or it is of another kind.
    """
    kinds = get_args(NetworkKind)
    for place in (folder, *(folder / known for known in kinds)):
        if not (place / "config.json").is_file() or not (place / "model.safetensors").is_file():
            continue
        config = read_untrusted_json(place / "config.json")
        is_kind: str | None = config.get("kind") if isinstance(config, dict) else None
        if is_kind is not None and is_kind in kinds and kind in ("", is_kind):
            return place, is_kind
        if is_kind is None and kind in SMALL_MODELS:
            return place, kind
        if is_kind is None:
            raise ValueError(
                f"{place} is a model; say with --kind which drafter it is to be: {', '.join(SMALL_MODELS)}"
            )
        raise ValueError(f"{place} holds a drafter of kind {is_kind!r}, not {kind!r}")
    raise ValueError(f"{folder} holds no trained drafter: give what `chemspec train` printed, or its run folder")


def install_drafter(folder: Path, kind: str, target: Path) -> Path:
    """Copy a drafter into a model's folder, in place of one of its kind; returns its folder there.

    Args:
        folder: the drafter's, see `trained_drafter`.
        kind: its kind.
        target: the model's folder.

    Raises:
        ValueError: if the drafter cannot draft for this model; nothing is changed then.
    """
    loaded = checkpoint.load(target)
    if kind in SMALL_MODELS:
        small = own.load(folder)
        if small.tokenizer != loaded.tokenizer:
            raise ValueError(f"{folder} has another vocabulary than model {loaded.name}")
    else:
        from chemspec.model import drafter_checkpoints

        drafter_checkpoints.load(folder, tokenizer=loaded.tokenizer, target=loaded.digest)
    final = target / FOLDER / kind
    partial, old = final.with_name(f"{kind}.partial"), final.with_name(f"{kind}.old")
    for left in (partial, old):
        shutil.rmtree(left, ignore_errors=True)
    partial.mkdir(parents=True)
    for name in FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, partial / name)
    if final.is_dir():
        final.rename(old)
    partial.rename(final)
    shutil.rmtree(old, ignore_errors=True)
    return final
