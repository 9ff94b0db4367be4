"""Load model folders in chemspec's format (`model.checkpoint`)."""

from dataclasses import replace
from pathlib import Path

from chemspec.importers.base import LoadedModel, LoadOptions, read_json_object
from chemspec.model import checkpoint


def recognises(folder: Path) -> bool:
    """Return whether a folder has a config in chemspec's format."""
    return "task" in read_json_object(folder / "config.json")


def load(folder: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load a model folder; only imported models take a template.

    Raises CheckpointError naming the fault of the folder, or ValueError for a template or a separate vocabulary, if the
    model does not take one.
    """
    if options.vocab:
        raise ValueError(f"{folder} has its vocabulary; leave --vocab out")
    read = checkpoint.load(folder)
    if options.template:
        if read.tokenizer.prompt_format is None:
            raise ValueError(f"{folder} is no Hugging Face model; only those take a template, and imported ones")
        from chemspec.importers.foreign import with_template

        read = replace(read, tokenizer=with_template(read.tokenizer, options.template, folder))
    return LoadedModel.of(read)
