"""Load chemspec's own model folders (`model.checkpoint`)."""

from __future__ import annotations

from pathlib import Path

from chemspec.importers.base import Importer, LoadedModel, LoadOptions, config_names
from chemspec.model import checkpoint


def recognises(folder: Path) -> bool:
    """Return whether a folder's config is one of ours."""
    return config_names(folder, "task")


def load(folder: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Read a model folder; of the options none is needed, and a template is refused.

    Raises:
        CheckpointError: naming what is wrong with the folder.
        ValueError: for a template.
    """
    if options.template:
        raise ValueError(f"{folder} is no Hugging Face model; only those take a template")
    read = checkpoint.load(folder)
    return LoadedModel(
        read.name,
        read.task,
        read.tokenizer,
        read.model.config,
        folder,
        read.digest,
        backend=lambda runtime: runtime.backend(read),
        notes=read.notes,
    )


IMPORTER = Importer("chemspec", recognises, load)
