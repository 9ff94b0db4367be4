"""List the model formats: a new one needs its file and an entry here, or an entry point `chemspec.importers`.

Ours is asked first. The others are imported when they are asked: they need torch, whose import takes longer than an
answer of ours.
"""

from __future__ import annotations

from pathlib import Path

from chemspec.importers import own
from chemspec.importers.base import Importer, LoadedModel, LoadOptions, nowhere
from chemspec.plugins import Registry, lazily

IMPORTERS: Registry[Importer] = Registry("importer")
HOME = "chemspec.importers"


def _later(name: str, module: str, *, load: str = "load", find: str = "") -> Importer:
    recognises, loads, finds = (lazily(f"{HOME}.{module}:{function}") for function in ("recognises", load, find))
    return Importer(name, recognises, loads, finds if find else nowhere)


for _importer in (
    Importer("chemspec", own.recognises, own.load),
    _later("huggingface", "hf", load="load_as", find="find"),
    _later("onmt", "onmt"),
    _later("translation-transformer", "translation_transformer"),
    _later("chemformer", "chemformer"),
    _later("ctranslate2", "ctranslate2"),
):
    IMPORTERS.register(_importer)


def load(path: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Read a model of any known format; a folder that nobody recognises is read, and refused, as one of our own.

    Raises:
        CheckpointError: for a model that cannot be used, saying what could be done.
        ValueError: for options that the format does not know.
        ModuleNotFoundError: without the extra that the format needs.
    """
    importer = next((known for known in IMPORTERS.values() if known.recognises(path)), None)
    if importer is None:
        from chemspec.importers import pickled

        if pickled.looks_like_one(path):
            pickled.explain(path)
    return (importer.load if importer else own.load)(path, options)


def find(name: str) -> Path | None:
    """Return the folder of a name that is no path, such as a model id of Hugging Face; None if no format knows it.

    Raises:
        CheckpointError: for an id that is not on this machine, with the command that gets it.
    """
    found = (importer.find(name) for importer in IMPORTERS.values())
    return next((folder for folder in found if folder is not None), None)
