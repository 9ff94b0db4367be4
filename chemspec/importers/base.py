"""Interface of model formats: recognise a path, and load it as a `LoadedModel`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from chemspec.model.checkpoint import Checkpoint, CheckpointError
from chemspec.model.runner import Backend
from chemspec.model.runtime import RuntimeConfig
from chemspec.settings import ModelConfig, ModelDims, Task

CARD = Path(__file__).with_name("card.txt")  # card of an imported model
# Prompt templates of published models. ReactionT5v2 was trained with a blank where a reaction has no reagents.
TEMPLATES = {"reactiont5-forward": "REACTANT:{query}REAGENT: ", "reactiont5-retro": "{query}"}


class TextTokenizer(Protocol):
    """Interface of tokenizers as used by the engine, such as `chemspec.tokenizer.Tokenizer`."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The text of every id; ids 0 to 3 are pad, bos, eos and unk."""

    @property
    def smiles_tokens(self) -> Sequence[str]:
        """Tokens of whole atoms and bonds, single or merged, if drafters may rely on them; else empty."""

    @property
    def merges(self) -> Sequence[tuple[str, str]]:
        """Pairs of `smiles_tokens` that are joined to one, in order of preference."""

    @property
    def has_marks(self) -> bool:
        """Whether queries may begin with special tokens of the model, such as a reaction class."""

    @property
    def prompt_length(self) -> int:
        """Approximate number of tokens before the query."""

    def __len__(self) -> int: ...

    def split_prompt(self, text: str) -> tuple[str, str]:
        """Split a query as typed into prompt tokens for `encode` and SMILES."""

    def encode(self, smiles: str) -> tuple[int, ...]:
        """Return ids; raises `TokenError` for text outside of the vocabulary."""

    def encode_answer(self, smiles: str) -> tuple[int, ...]:
        """Return ids of a SMILES as the model writes it, without a prompt; raises `TokenError` likewise."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text up to the first eos."""

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id up to the first eos, without pad and bos."""

    def symbol_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the same text in symbols, in which drafters count positions: the parts of merged tokens."""


@dataclass(frozen=True)
class LoadedModel:
    """A loaded model of any format.

    `backend` opens a backend and returns it with the name of its runtime; raises ValueError if that is not available.
    `save` writes the model and the text of a card to a folder that can be loaded without the checkpoint. Raises
    CheckpointError if the tokenizer has more tokens than the model.
    """

    name: str
    task: Task
    tokenizer: TextTokenizer
    config: ModelConfig | ModelDims
    folder: Path  # also holds its drafters
    digest: str  # digest of everything that predictions depend on; part of cache keys
    backend: Callable[[RuntimeConfig], tuple[Backend, str]]
    notes: tuple[str, ...] = ()  # shown with every prediction
    vocabulary: str = ""  # digest of the vocabulary where `digest` leaves it out, as in a folder of chemspec
    details: Mapping[str, str] = field(default_factory=dict)  # shown when the checkpoint is imported
    save: Callable[[Path, str], None] | None = None  # None: the model was read from a folder that needs no import

    def __post_init__(self) -> None:
        if len(self.tokenizer) > self.config.vocab_size:  # compiled code does not check the ids that drafters propose
            tokens = f"{len(self.tokenizer)} tokens, the model {self.config.vocab_size}"
            raise CheckpointError(f"{self.folder}: its tokenizer has {tokens}")

    @classmethod
    def of(cls, read: Checkpoint, **more: Any) -> LoadedModel:
        """Return a model of a checkpoint; `more` are further attributes."""
        names = ("name", "task", "tokenizer", "config", "folder", "digest", "notes", "vocabulary")
        values = {name: getattr(read, name) for name in names} | {"backend": lambda runtime: runtime.backend(read)}
        return cls(**{**values, **more})


@dataclass(frozen=True)
class LoadOptions:
    """Options for models whose files lack this information."""

    task: Task | None = None
    template: str = ""  # prompt with `{query}` for the SMILES, or a name of `TEMPLATES`
    name: str = ""  # display name; "" takes the folder's
    vocab: Path | None = None  # vocabulary file, if it is separate
    unknown_as_unk: bool = False  # map unknown tokens to unk, as the original program does; else they are an error

    def __post_init__(self) -> None:
        object.__setattr__(self, "template", TEMPLATES.get(self.template, self.template))


def write_imported_model(loaded: LoadedModel, source: Path, folder: Path, *, license_text: str, command: str) -> None:
    """Write an imported model to a folder; raises CheckpointError if it is chemspec's, or the folder has a model."""
    if loaded.save is None:
        raise CheckpointError(f"{source} is a model folder already; copy it")
    if (folder / "model.safetensors").exists():
        raise CheckpointError(f"{folder} holds a model; choose another folder")
    license_row = license_text or "unknown; ask its authors before you use or share it"
    rows = {"source": str(source), "licence": license_row, **loaded.details, "imported by": f"`{command}`"}
    table = "\n".join(f"| {name} | {value.replace('|', '/')} |" for name, value in rows.items())
    loaded.save(folder, CARD.read_text(encoding="utf-8").format(name=folder.name, task=loaded.task, rows=table))


def read_json_object(file: Path) -> dict[str, Any]:
    """Return the content of a JSON file; empty if it is missing or no JSON object."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


@dataclass(frozen=True)
class Importer:
    """A model format.

    `recognises` is fast and never raises; `load` raises CheckpointError if a model is unusable; `find` resolves a name
    such as a hub id to a folder, and raises CheckpointError for a valid name that is not on this machine.
    """

    name: str
    recognises: Callable[[Path], bool]
    load: Callable[[Path, LoadOptions], LoadedModel]
    find: Callable[[str], Path | None] = lambda _: None
