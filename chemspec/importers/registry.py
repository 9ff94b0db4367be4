"""List the model formats: a new one needs its file and an entry here, or an entry point `chemspec.importers`."""

from __future__ import annotations

from pathlib import Path

from chemspec.importers import hf, own
from chemspec.importers.base import Importer, LoadedModel, LoadOptions
from chemspec.plugins import Registry

IMPORTERS: Registry[Importer] = Registry("importer", __name__)

for _importer in (hf.IMPORTER, own.IMPORTER):
    IMPORTERS.register(_importer)


def load(folder: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Read a model folder of any known format; what nobody recognises is read, and refused, as one of our own.

    Raises:
        CheckpointError: for a model that cannot be used, saying what could be done.
        ValueError: for options that the format does not know.
        ModuleNotFoundError: without the extra that the format needs.
    """
    importer = next((known for known in IMPORTERS.values() if known.recognises(folder)), own.IMPORTER)
    return importer.load(folder, options)


def find(name: str) -> Path | None:
    """Return the folder of a name that is no path, such as a model id of Hugging Face; None if no format knows it.

    Raises:
        CheckpointError: for an id that is not on this machine, with the command that gets it.
    """
    found = (importer.find(name) for importer in IMPORTERS.values())
    return next((folder for folder in found if folder is not None), None)
