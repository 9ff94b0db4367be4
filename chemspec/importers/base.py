"""Say what a model format must provide: recognise a folder, and load it into one type of value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Backend
from chemspec.settings import ModelConfig, ModelDims, Task

# Texts that published models were trained to read. ReactionT5v2 was given a blank where a reaction has no reagents.
TEMPLATES = {"reactiont5-forward": "REACTANT:{query}REAGENT: ", "reactiont5-retro": "{query}"}


class TextTokenizer(Protocol):
    """What the engine asks of a tokenizer; `chemspec.tokenizer.Tokenizer` is one."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The text of every id; ids 0 to 3 are pad, bos, eos and unk."""

    @property
    def alphabet(self) -> Sequence[str]:
        """Tokens for single atoms and bonds, where drafters may rely on them; else empty."""

    @property
    def prompt_length(self) -> int:
        """About how many tokens come before the query."""

    def __len__(self) -> int: ...

    def lead(self, text: str) -> tuple[str, str]:
        """Split a query as typed into what comes before its SMILES, as `encode` reads it, and its SMILES."""

    def encode(self, smiles: str) -> tuple[int, ...]:
        """Return ids; raises `TokenError` for what the model has never seen."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text up to the first eos."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id up to the first eos, without pad and bos."""


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory, whatever format it came in.

    Attributes:
        name: what to call it.
        tokenizer: between SMILES and ids.
        config: its sizes.
        folder: where it lies; drafters and what they learned lie there too.
        digest: of all that answers depend on; names caches.
        backend: makes what computes it (device, precision, runtime, threads), and says which runtime that is; raises
            ValueError for one that cannot be had.
        notes: what to tell with every answer.
        found: what the checkpoint turned out to be, to be told when it is imported.
        save: writes it, and the text of a card, into a folder that can be loaded without the checkpoint.
    """

    name: str
    task: Task
    tokenizer: TextTokenizer
    config: ModelConfig | ModelDims
    folder: Path
    digest: str
    backend: Callable[[RuntimeConfig], tuple[Backend, str]]
    notes: tuple[str, ...] = ()
    found: Mapping[str, str] = field(default_factory=dict)
    save: Callable[[Path, str], None] | None = None


@dataclass(frozen=True)
class LoadOptions:
    """What a caller may say about a model that does not say it itself.

    Attributes:
        task: what it is for.
        template: the text that it reads, with `{query}` where the SMILES goes, or a name of `TEMPLATES`.
        name: what to call it; "" takes the folder's.
        vocab: the file of its vocabulary, where that lies apart.
        unknown_as_unk: read tokens that it has never seen as unk, where its own program does; else refuse them.
    """

    task: Task | None = None
    template: str = ""
    name: str = ""
    vocab: Path | None = None
    unknown_as_unk: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "template", TEMPLATES.get(self.template, self.template))


def config_names(folder: Path, key: str) -> bool:
    """Return whether a folder has a `config.json` with this key; never raises."""
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(values, dict) and key in values


def nowhere(_: str) -> Path | None:
    """Find no model by its name alone."""
    return None


@dataclass(frozen=True)
class Importer:
    """A model format.

    Attributes:
        name: of the format.
        recognises: whether a path holds a model of this format; quick, and never raises.
        load: reads it; raises `CheckpointError` for a model that cannot be used.
        find: the folder of a name that is no path, such as an id of a hub; raises `CheckpointError` for a name of the
            right form that is not on this machine.
    """

    name: str
    recognises: Callable[[Path], bool]
    load: Callable[[Path, LoadOptions], LoadedModel]
    find: Callable[[str], Path | None] = nowhere
