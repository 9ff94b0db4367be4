"""Load chemspec's own model folders (`model.checkpoint`)."""

from __future__ import annotations

import json
from pathlib import Path

from chemspec.importers.base import Importer, LoadedModel, LoadOptions
from chemspec.model import checkpoint
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Backend


def recognises(folder: Path) -> bool:
    """Return whether a folder's config is one of ours."""
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(values, dict) and "task" in values


def load(folder: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Read a model folder; of the options none is needed, and a template is refused.

    Raises:
        CheckpointError: naming what is wrong with the folder.
        ValueError: for a template.
    """
    if options.template:
        raise ValueError(f"{folder} is no Hugging Face model; only those take a template")
    read = checkpoint.load(folder)

    def backend(runtime: RuntimeConfig) -> tuple[Backend, str]:
        return runtime.backend(read)

    return LoadedModel(
        read.name, read.task, read.tokenizer, read.model.config, folder, read.digest, backend, read.notes
    )


IMPORTER = Importer("chemspec", recognises, load)
