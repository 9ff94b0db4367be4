"""Load chemspec's own model folders (`model.checkpoint`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chemspec.importers.base import LoadedModel, LoadOptions, config_names
from chemspec.model import checkpoint


def recognises(folder: Path) -> bool:
    """Return whether a folder's config is one of ours."""
    return config_names(folder, "task")


def load(folder: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Read a model folder; only one that was imported takes a template.

    Raises:
        CheckpointError: naming what is wrong with the folder.
        ValueError: for a template, or a vocabulary of its own, that the model does not take.
    """
    if options.vocab:
        raise ValueError(f"{folder} has its vocabulary; leave --vocab out")
    read = checkpoint.load(folder)
    if options.template:
        if read.tokenizer.reading is None:
            raise ValueError(f"{folder} is no Hugging Face model; only those take a template, and imported ones")
        from chemspec.importers.foreign import with_template

        read = replace(read, tokenizer=with_template(read.tokenizer, options.template, folder))
    return LoadedModel(
        read.name,
        read.task,
        read.tokenizer,
        read.config,
        folder,
        read.digest,
        backend=lambda runtime: runtime.backend(read),
        notes=read.notes,
    )
