"""Registry of model formats: a new one needs its file and an entry here, or an entry point `chemspec.importers`.

The native format is tried first. Other importers are imported on first use: they need torch, whose import takes longer
than a prediction.
"""

from pathlib import Path

from chemspec.importers import own
from chemspec.importers.base import Importer, LoadedModel, LoadOptions
from chemspec.plugins import Registry, lazy_import

IMPORTERS: Registry[Importer] = Registry("importer")
PACKAGE = "chemspec.importers"


IMPORTERS.register(Importer("chemspec", own.recognises, own.load))
for _name, _module, *_functions in (
    ("huggingface", "hf", "find"),
    ("onmt", "onmt"),
    ("translation-transformer", "translation_transformer"),
    ("chemformer", "chemformer"),
    ("ctranslate2", "ctranslate2"),
):
    _lazy = [lazy_import(f"{PACKAGE}.{_module}:{function}") for function in ("recognises", "load", *_functions)]
    IMPORTERS.register(Importer(_name, *_lazy))


def load(path: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load a model of any known format; an unrecognised folder raises the errors of the native format.

    Raises CheckpointError for an unusable model, with a remedy; ValueError for options that the format does not
    support; ModuleNotFoundError without the extra that the format needs.
    """
    importer = next((candidate for candidate in IMPORTERS.values() if candidate.recognises(path)), None)
    if importer is None:
        from chemspec.importers import pickled

        pickled.explain_unrecognised(path)
    return (importer.load if importer else own.load)(path, options)


def find(name: str) -> Path | None:
    """Return the folder of a model name such as a Hugging Face id, or None; see `Importer.find` for errors."""
    folders = (importer.find(name) for importer in IMPORTERS.values())
    return next((folder for folder in folders if folder is not None), None)
