"""Registry of model formats: a new one needs its file and an entry here, or an entry point `chemspec.importers`.

The native format is tried first. Other importers are imported on first use: they need torch, whose import takes longer
than a prediction.
"""

from dataclasses import replace
from pathlib import Path

from chemspec.importers.base import Importer, LoadedModel, LoadOptions, read_json_object
from chemspec.importers.unread import explain_unread_format
from chemspec.model import checkpoint
from chemspec.model.checkpoint import CheckpointError
from chemspec.plugins import Registry, lazy_import
from chemspec.system import extras
from chemspec.system.stand_ins import find_stand_in

IMPORTERS: Registry[Importer] = Registry("importer")
PACKAGE = "chemspec.importers"


def load_native(folder: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load a model folder in chemspec's format; only imported models take a template.

    Raises CheckpointError naming the fault of the folder, or ValueError for a template or a separate vocabulary, if the
    model does not take one.
    """
    if options.vocab:
        raise ValueError(f"{folder} has its vocabulary; leave --vocab out")
    read = checkpoint.load(folder)
    if options.template:
        if read.tokenizer.prompt_format is None:
            raise ValueError(f"{folder} is no Hugging Face model; only those take a template, and imported ones")
        extras.require_packages("torch", what="a template")
        from chemspec.importers.foreign import with_template

        read = replace(read, tokenizer=with_template(read.tokenizer, options.template, folder))
    return LoadedModel.of(read)


def _lazy_importer(name: str, module: str, *, hub: bool = False) -> Importer:
    """Return an importer whose module has functions of its fields' names; `find` only with a hub."""
    recognises, load, find = (lazy_import(f"{PACKAGE}.{module}:{name}") for name in ("recognises", "load", "find"))

    def find_on_hub(model: str) -> Path | None:
        if not hub or model.count("/") != 1:
            return None
        extras.require_packages("torch", what=f"{model} would be a model of Hugging Face")
        return find(model)  # type: ignore[no-any-return]

    # Their modules import torch.
    return Importer(name, lambda path: extras.is_installed("torch") and recognises(path), load, find_on_hub)


for _importer in (
    Importer("chemspec", lambda folder: "task" in read_json_object(folder / "config.json"), load_native),
    _lazy_importer("huggingface", "hf", hub=True),
    _lazy_importer("onmt", "onmt"),
    _lazy_importer("translation-transformer", "translation_transformer"),
    _lazy_importer("chemformer", "chemformer"),
    _lazy_importer("described", "described"),
):
    IMPORTERS.register(_importer)


def load(path: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load a model of any known format; an unrecognised folder raises the errors of the native format.

    Raises CheckpointError for an unusable model, with a remedy; ValueError for options that the format does not
    support; ModuleNotFoundError without the extra that the format needs.
    """
    try:
        return _load(path, options)
    except (CheckpointError, ModuleNotFoundError) as error:
        files = [file for file in sorted(path.iterdir()) if file.suffix not in _PAGES] if path.is_dir() else [path]
        if stand_in := find_stand_in(files):
            raise CheckpointError(stand_in) from error
        raise


_PAGES = (".html", ".htm")  # which may be in the folder of a model


def _load(path: Path, options: LoadOptions) -> LoadedModel:
    importer = next((candidate for candidate in IMPORTERS.values() if candidate.recognises(path)), None)
    if importer is None:
        explain_unread_format(path)
        if path.is_file() or any(path.iterdir()):
            extras.require_packages("torch", what=f"{path} is not in chemspec's own format; other formats need torch")
        from chemspec.importers import pickled

        pickled.explain_unrecognised(path)
    return (importer.load if importer else load_native)(path, options)


def find(name: str) -> Path | None:
    """Return the folder of a model name such as a Hugging Face id, or None; see `Importer.find` for errors."""
    folders = (importer.find(name) for importer in IMPORTERS.values())
    return next((folder for folder in folders if folder is not None), None)
