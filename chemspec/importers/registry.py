"""List the model formats: a new one needs its file and an entry here, or an entry point `chemspec.importers`."""

from __future__ import annotations

from pathlib import Path

from chemspec.importers import chemformer, hf, onmt, own, pickled, translation_transformer
from chemspec.importers.base import Importer, LoadedModel, LoadOptions
from chemspec.plugins import Registry

IMPORTERS: Registry[Importer] = Registry("importer", __name__)

for _importer in (hf.IMPORTER, own.IMPORTER, onmt.IMPORTER, translation_transformer.IMPORTER, chemformer.IMPORTER):
    IMPORTERS.register(_importer)


def load(path: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Read a model of any known format; a folder that nobody recognises is read, and refused, as one of our own.

    Raises:
        CheckpointError: for a model that cannot be used, saying what could be done.
        ValueError: for options that the format does not know.
        ModuleNotFoundError: without the extra that the format needs.
    """
    importer = next((known for known in IMPORTERS.values() if known.recognises(path)), None)
    if importer is None and pickled.looks_like_one(path):
        pickled.explain(path)
    return (importer or own.IMPORTER).load(path, options)


def find(name: str) -> Path | None:
    """Return the folder of a name that is no path, such as a model id of Hugging Face; None if no format knows it.

    Raises:
        CheckpointError: for an id that is not on this machine, with the command that gets it.
    """
    found = (importer.find(name) for importer in IMPORTERS.values())
    return next((folder for folder in found if folder is not None), None)
