"""Folders of models and drafters: `model.safetensors`, `config.json`, `card.md`, for a model `vocab.json`. No pickles.

The config of a model names its `task`; that of a drafting network (masked drafter, Medusa, blockwise heads), stored in
`drafters/<kind>` of its target's folder, its `kind`. Small draft models ("ar", "medium") are ordinary models there.

Loading a model does not import torch, which takes longer than a prediction; torch is imported on first use of `.model`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import chemspec.asset_files as asset_files
import chemspec.tasks as tasks
from chemspec.model import manifest, weights
from chemspec.model.probe import probe
from chemspec.model.runner import Backend
from chemspec.model.weights import CheckpointError as CheckpointError
from chemspec.model.weights import Weights
from chemspec.settings import ModelConfig, NetworkKind, Task
from chemspec.system.extras import require_packages
from chemspec.system.files import write_bytes_atomic, write_text_atomic
from chemspec.system.untrusted import read_untrusted_json
from chemspec.tokenizer import Tokenizer

if TYPE_CHECKING:
    from chemspec.model.heads import Heads, HeadsConfig
    from chemspec.model.transformer import Transformer

FILES = ("config.json", "model.safetensors", "vocab.json")  # the last one of models only
MAX_DRAFT_TOKENS = 1000  # as in `DecodeSettings`
TRAINING = "`chemspec train --recipe` (its --list names those of drafters)"


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model: weights in fp32, vocabulary, task and origin."""

    name: str
    task: Task
    weights: Weights
    tokenizer: Tokenizer
    folder: Path
    digest: str  # digest of weights and config; part of cache keys
    notes: tuple[str, ...] = ()  # shown with every prediction
    vocabulary: str = ""  # digest of the vocabulary where `digest` leaves it out, see `manifest.join_digests`

    @property
    def config(self) -> ModelConfig:
        """The architecture."""
        return self.weights.config

    @cached_property
    def model(self) -> Transformer:
        """The network, on the CPU; CheckpointError if its scores are not finite, MissingExtraError without torch."""
        return _build_network(self.weights, where=str(self.folder))


@dataclass(frozen=True)
class DrafterCheckpoint:
    """A loaded drafting network: in fp32 on the CPU, computed by torch unless a backend is given."""

    kind: NetworkKind
    length: int  # maximum number of tokens it was trained to draft at once
    model: Transformer | Heads  # a `Transformer` whose last token is the mask ("spec_drafter"), or `Heads`
    backend: Backend | None = None  # computes a spec_drafter in place of torch


def drafter_folder(target: Path, kind: str) -> Path:
    """Return the folder of a target's drafter: its own or, of a shipped model, that of the package of further ones."""
    folder, further = target / "drafters" / kind, asset_files.further_models()
    if further and not folder.is_dir() and target.parent == asset_files.assets_folder() / "models":
        return further / target.name / "drafters" / kind
    return folder


def save(folder: Path, model: Transformer, tokenizer: Tokenizer, *, task: Task, half: bool = True) -> None:
    """Write a model folder; raises CheckpointError, before anything is written, for a model that `load` would refuse.

    With `half`, matrices are stored in bfloat16: half the size, and lossless for weights trained in bfloat16.
    """
    if len(tokenizer) != model.config.vocab_size:
        raise CheckpointError(f"{folder}: {len(tokenizer)} tokens, but vocab_size {model.config.vocab_size}")
    _write(folder, model, {"task": task, **model.config.to_json()}, half=half)
    tokenizer.save(folder / "vocab.json")


def save_drafter(
    folder: Path, model: Transformer | Heads, tokenizer: Tokenizer, *, kind: NetworkKind, length: int, target: str = ""
) -> None:
    """Write the folder of a drafting network, which drafts up to `length` tokens at once; matrices in bfloat16.

    `target` is the digest of the target's weights if the network reads the target's hidden state. Raises
    CheckpointError for weights that are not finite; nothing is written then.
    """
    config = {"kind": kind, "length": length, "vocabulary": _vocabulary_digest(tokenizer), "target": target}
    _write(folder, model, {**config, "model": model.config.to_json()}, half=True)


def _write(folder: Path, model: Transformer | Heads, config: Mapping[str, Any], *, half: bool) -> None:
    """Write config and weights but a tied output layer; old weights are replaced once the new ones are complete."""
    import safetensors.torch
    import torch

    state = {
        name: tensor.detach().to("cpu", torch.bfloat16 if half and tensor.ndim > 1 else torch.float32).contiguous()
        for name, tensor in model.state_dict().items()
        if name != "output.weight" or not getattr(model.config, "tied_output", False)
    }
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f"{folder}: {name} holds infinite or undefined numbers")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / manifest.MANIFEST).unlink(missing_ok=True)  # a manifest of other files
    write_text_atomic(folder / "config.json", json.dumps(config, indent=1))
    write_bytes_atomic(folder / "model.safetensors", safetensors.torch.save(state))


def load(folder: Path) -> Checkpoint:
    """Read a model folder; raises CheckpointError, naming the file, if it is incomplete, damaged or not as listed."""
    if missing := [name for name in FILES if not (folder / name).is_file()]:
        raise CheckpointError(f"{folder} is no model folder: {missing[0]} is missing")
    digest = manifest.checked_digest(folder)
    task, config = read_config(folder)
    try:
        tokenizer = Tokenizer.load(folder / "vocab.json")
    except (OSError, ValueError) as error:  # they name the file
        raise CheckpointError(str(error)) from error
    if len(tokenizer) != config.vocab_size:
        raise CheckpointError(f"{folder}: {len(tokenizer)} tokens in vocab.json, vocab_size {config.vocab_size}")
    read = weights.read_weights(folder / "model.safetensors", config)
    vocabulary = manifest.hash_vocabulary(folder)
    return Checkpoint(folder.name, task, read, tokenizer, folder, digest, vocabulary=vocabulary)


def load_drafter(folder: Path, *, tokenizer: Tokenizer, target: str = "") -> DrafterCheckpoint:
    """Read a drafter from `drafters/NAME` in the folder of its target.

    A drafter of another target would change no output, but its drafts would never be accepted. So CheckpointError is
    raised not only for a missing or damaged drafter, but also for one of another vocabulary or `Checkpoint.digest`.
    """
    require_packages("torch", what=f"the drafter {folder.name}")
    from chemspec.model.heads import HeadsConfig

    config_file, weights_file = folder / "config.json", folder / "model.safetensors"
    if not config_file.is_file() or not weights_file.is_file():
        raise CheckpointError(f"there is no drafter in {folder}; train one with {TRAINING}")
    manifest.checked_digest(folder)
    try:
        values = read_untrusted_json(config_file)
        kind, length, vocabulary = values["kind"], values["length"], values["vocabulary"]
        if kind not in get_args(NetworkKind) or type(length) is not int or not 1 <= length <= MAX_DRAFT_TOKENS:
            raise ValueError(f"kind {kind!r} and length {length!r} are not those of a drafter")
        config = (ModelConfig if kind == "spec_drafter" else HeadsConfig).from_json(dict(values["model"]))
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{config_file}: not a drafter's config: {error}") from error
    misfit = ""
    if vocabulary != _vocabulary_digest(tokenizer):
        misfit = "was trained with another vocabulary than the target's"
    elif target and values.get("target") not in (None, "", target):
        misfit = "reads the hidden state of other weights than the target's"
    if misfit:
        raise CheckpointError(f"{folder}: the drafter {misfit}; train it again with {TRAINING}")
    if isinstance(config, ModelConfig):
        read = weights.read_weights(weights_file, config)
        return DrafterCheckpoint(kind, length, _build_network(read, where=str(weights_file)))
    return DrafterCheckpoint(kind, length, _read_heads(weights_file, config))


def _build_network(read: Weights, *, where: str) -> Transformer:
    require_packages("torch", what=f"computing {where} with torch")
    from chemspec.model.runners.torch_runner import TorchBackend
    from chemspec.model.transformer import Transformer

    model = Transformer.of(read)
    probe(TorchBackend(model), read.config, where=where)
    return model


def _read_heads(file: Path, config: HeadsConfig) -> Heads:
    import torch

    from chemspec.model.heads import Heads

    # Shapes are checked before memory is allocated: the config of another model may need more than there is.
    with torch.device("meta"):
        shapes = {name: tuple(tensor.shape) for name, tensor in Heads(config).state_dict().items()}
    tensors = weights.read_tensors(file)
    weights.check_tensors(shapes, tensors, where=str(file))
    heads = Heads(config)
    heads.load_state_dict({name: torch.from_numpy(array) for name, array in tensors.items()})
    return heads.eval().requires_grad_(False)


def read_config(folder: Path) -> tuple[Task, ModelConfig]:
    """Return a model folder's task and architecture; raises CheckpointError if the config is missing or invalid."""
    file = folder / "config.json"
    try:
        values = read_untrusted_json(file)
        if not isinstance(values, dict):
            raise ValueError("it does not hold a JSON object")
        return tasks.check_task(values.pop("task", None)), ModelConfig.from_json(values)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: {error}") from error


def digest_of_folder(folder: Path) -> str:
    """Return the digest of a model folder's weights and config, see `Checkpoint.digest`."""
    return manifest.hash_model(folder)[1]


def full_digest_of_folder(folder: Path) -> str:
    """Return the digest of a model folder's weights, config and vocabulary, as `Engine.full_digest`."""
    return manifest.join_digests(digest_of_folder(folder), manifest.hash_vocabulary(folder))


def _vocabulary_digest(tokenizer: Tokenizer) -> str:
    """Return a digest of a vocabulary's tokens and their order, and of its merges."""
    return _digest("\n".join((*tokenizer.tokens, *map(" ".join, tokenizer.merges))).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
