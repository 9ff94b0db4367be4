"""Checkpoints of drafting networks (masked drafter, Medusa, blockwise heads), in `drafters/<kind>` of a model folder.

Small autoregressive draft models ("ar", "medium") are ordinary model folders in the same place; see
`draft.learned.small`.

A folder holds `model.safetensors` (matrices in bfloat16), `config.json` and `card.md`. The config holds the kind, the
architecture, the number of tokens drafted at once, the digest of the vocabulary, and that of the target's weights where
the drafter reads the target's hidden state. A drafter of another target would change no output, but its drafts would
never be accepted, so loading it is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from safetensors import SafetensorError
from safetensors.torch import load_file

from chemspec.model.checkpoint import (
    CheckpointError,
    build_with_weights,
    digest_of_folder,
    read_config,
    write_model_folder,
)
from chemspec.model.heads import Heads, HeadsConfig
from chemspec.model.probe import check_finite_scores
from chemspec.model.runner import Backend
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.spec_drafter import MaskFiller
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig, NetworkKind
from chemspec.system.untrusted import read_untrusted_json
from chemspec.tokenizer import Tokenizer

KINDS: tuple[NetworkKind, ...] = get_args(NetworkKind)
FOLDER = "drafters"
MAX_DRAFT_TOKENS = 1000  # as in `DecodeSettings`


@dataclass(frozen=True)
class DrafterCheckpoint:
    """A loaded drafting network: in fp32 on the CPU, computed by torch unless a backend is given.

    Attributes:
        length: maximum number of tokens it was trained to draft at once.
        model: a `Transformer` whose last token is the mask ("spec_drafter"), or `Heads`.
        target: digest of the only target it works with; empty if it needs no outputs of the target.
        digest: of weights and config.
        backend: computes a spec_drafter in place of torch.
    """

    kind: NetworkKind
    length: int
    model: Transformer | Heads
    folder: Path
    target: str = ""
    digest: str = ""
    backend: Backend | None = None

    def open(self) -> Any:
        """Return the function that one run of the drafter calls.

        Returns:
            `MaskFiller.fill` with a new KV cache for a spec_drafter; `Heads.best` for heads.
        """
        if isinstance(self.model, Heads):
            return self.model.best
        return MaskFiller(self.model, self.length, self.backend).fill


def vocabulary_digest(tokenizer: Tokenizer) -> str:
    """Return a digest of a vocabulary's tokens and their order."""
    return hashlib.sha256("\n".join(tokenizer.smiles_tokens).encode()).hexdigest()[:16]


def drafter_folder(target: Path, kind: str) -> Path:
    """Return the folder of a target's drafter of this kind."""
    return target / FOLDER / kind


def recipe_name(folder: Path) -> str:
    """Return the name of the recipe that trains a folder's drafter, from its kind and its target's task."""
    try:
        task: str = read_config(folder.parent.parent)[0]
    except CheckpointError:
        task = "retro"
    return f"{task}-{folder.name.replace('_', '-')}"


def build(kind: str, shape: Mapping[str, Any]) -> Transformer | Heads:
    """Build a network of this kind with random weights.

    Raises:
        ValueError: for a shape that this kind does not support.
    """
    return _build_network(_read_shape(kind, shape))


def _read_shape(kind: str, shape: Mapping[str, Any]) -> ModelConfig | HeadsConfig:
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(KINDS)}")
    try:
        return (ModelConfig if kind == "spec_drafter" else HeadsConfig).from_json(dict(shape))
    except (TypeError, AttributeError) as error:
        raise ValueError(f"the architecture is not one of a {kind} drafter: {error}") from error


def _build_network(shape: ModelConfig | HeadsConfig) -> Transformer | Heads:
    return Transformer(shape) if isinstance(shape, ModelConfig) else Heads(shape)


def save(
    folder: Path, model: Transformer | Heads, tokenizer: Tokenizer, *, kind: NetworkKind, length: int, target: str = ""
) -> None:
    """Write a drafter's folder, its matrices in bfloat16 as `checkpoint.save` does; a card is written by hand.

    Raises:
        CheckpointError: for weights that are not finite.
    """
    config = {
        "kind": kind,
        "length": length,
        "vocabulary": vocabulary_digest(tokenizer),
        "target": target,
        "model": model.config.to_json(),
    }
    write_model_folder(folder, model, config)


def load(folder: Path, *, tokenizer: Tokenizer, target: str = "") -> DrafterCheckpoint:
    """Read a drafter's folder.

    Args:
        folder: `drafters/NAME` in the folder of its target.
        tokenizer: the target's vocabulary, which must be the drafter's too.
        target: digest of the target (`Checkpoint.digest`); a drafter bound to other weights is refused.

    Raises:
        CheckpointError: for a drafter that is missing, damaged, or trained for another vocabulary or target.
    """
    config_file, weights_file = folder / "config.json", folder / "model.safetensors"
    command = f"chemspec train --recipe {recipe_name(folder)}"
    if not config_file.is_file() or not weights_file.is_file():
        raise CheckpointError(f"there is no drafter in {folder}; `{command}` trains one")
    try:
        config = read_untrusted_json(config_file)
        kind, length = config["kind"], config["length"]
        if kind not in KINDS or type(length) is not int or not 1 <= length <= MAX_DRAFT_TOKENS:
            raise ValueError(f"kind {kind!r} and length {length!r} are not those of a drafter")
        if config["vocabulary"] != vocabulary_digest(tokenizer):
            raise CheckpointError(
                f"{folder}: the drafter was trained with another vocabulary than the target's; "
                f"train it again with `{command}`"
            )
        bound = config.get("target", "")
        if target and bound and bound != target:
            raise CheckpointError(
                f"{folder}: the drafter reads the hidden state of other weights than the target's; "
                f"train it again with `{command}`"
            )
        state = load_file(weights_file)
        shape = _read_shape(kind, config["model"])
        model = build_with_weights(lambda: _build_network(shape), state, where=str(weights_file))
        if isinstance(model, Transformer):
            check_finite_scores(TorchBackend(model), model.config, where=str(weights_file))
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{config_file}: not a drafter's config: {error}") from error
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{weights_file} cannot be read: {error}") from error
    return DrafterCheckpoint(kind, length, model, folder, bound, digest_of_folder(folder))
