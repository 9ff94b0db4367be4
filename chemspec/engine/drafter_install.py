"""Install trained drafters in a model's folder."""

import shutil
from pathlib import Path
from typing import get_args

from chemspec.importers.model_formats import load_native
from chemspec.model import checkpoint
from chemspec.model.checkpoint import drafter_folder
from chemspec.settings import NetworkKind
from chemspec.system.untrusted import read_untrusted_json

SMALL_MODELS = ("ar", "medium")  # ordinary models that draft for a larger one with the same vocabulary
FILES = ("config.json", "model.safetensors", "vocab.json", "card.md")


def trained_drafter(folder: Path, kind: str = "") -> tuple[Path, str]:
    """Return the folder and the kind of a trained drafter, given its folder or the run folder of its training.

    For an ordinary model the kind, "ar" or "medium", must be given. Raises ValueError for none of this kind.
    """
    kinds = get_args(NetworkKind)
    for candidate in (folder, *(folder / name for name in kinds)):
        if not (candidate / "config.json").is_file() or not (candidate / "model.safetensors").is_file():
            continue
        config = read_untrusted_json(candidate / "config.json")
        is_kind: str | None = config.get("kind") if isinstance(config, dict) else None
        if is_kind is None and kind not in SMALL_MODELS:
            names = ", ".join(SMALL_MODELS)
            raise ValueError(f"{candidate} is a model; say with --kind which drafter it is to be: {names}")
        if is_kind is not None and (is_kind not in kinds or kind not in ("", is_kind)):
            raise ValueError(f"{candidate} holds a drafter of kind {is_kind!r}, not {kind!r}")
        return candidate, is_kind or kind
    raise ValueError(f"{folder} holds no trained drafter: give what `chemspec train` printed, or its run folder")


def install_drafter(folder: Path, kind: str, target: Path) -> Path:
    """Copy a drafter into a model's folder, replacing one of its kind; returns the new folder.

    Raises ValueError if the drafter does not fit the model; nothing is changed then.
    """
    loaded = checkpoint.load(target)
    if kind in SMALL_MODELS:
        small = load_native(folder)
        if small.tokenizer != loaded.tokenizer:
            raise ValueError(f"{folder} has another vocabulary than model {loaded.name}")
    else:
        checkpoint.load_drafter(folder, tokenizer=loaded.tokenizer, target=loaded.digest)
    final = drafter_folder(target, kind)
    partial = final.with_name(f"{kind}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name in FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, partial / name)
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    return final
