"""Checkpoints of drafters with a network of their own kind, in `drafters/<kind>` of the target's folder.

Small models that write as the target does ("ar", "medium") lie beside them as ordinary model folders; see
`draft.learned.small`.

A folder holds `model.safetensors` (matrices in bfloat16), `config.json` and `card.md`. The config holds the kind, the
architecture, how many tokens it drafts at once, and what it belongs to: the digest of the vocabulary, and that of the
target's weights where the drafter reads the target's hidden state. A drafter that does not fit would change no answer,
but none of its guesses would be accepted, so it is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from safetensors import SafetensorError
from safetensors.torch import load_file

from chemspec.model.checkpoint import CheckpointError, build_filled, check_computes, digest_of, read_config, write
from chemspec.model.heads import Heads, HeadsConfig
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.session import Backend
from chemspec.model.spec_drafter import MaskFiller
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig, NetworkKind
from chemspec.system.untrusted import read_json
from chemspec.tokenizer import Tokenizer

KINDS: tuple[NetworkKind, ...] = get_args(NetworkKind)
FOLDER = "drafters"
MOST_TOKENS = 1000  # of a draft, as in `DecodeSettings`


@dataclass(frozen=True)
class DrafterCheckpoint:
    """A drafter's model as loaded: in fp32 on the CPU, computed by torch unless a backend is given.

    Attributes:
        length: most tokens that it was trained to draft at once.
        model: a `Transformer` whose last token is the mask ("spec_drafter"), or `Heads`.
        target: digest of the only target it works with; empty for one that reads nothing of the target.
        digest: of weights and config.
        backend: what computes a spec_drafter, in place of torch.
    """

    kind: NetworkKind
    length: int
    model: Transformer | Heads
    folder: Path
    target: str = ""
    digest: str = ""
    backend: Backend | None = None

    def open(self) -> Any:
        """Return what one run of its drafter calls.

        Returns:
            For a spec_drafter `MaskFiller.fill`, with caches of its own; for heads `Heads.best`.
        """
        if isinstance(self.model, Heads):
            return self.model.best
        return MaskFiller(self.model, self.length, self.backend).fill


def vocabulary(tokenizer: Tokenizer) -> str:
    """Return a digest of a vocabulary: the same tokens in the same order."""
    return hashlib.sha256("\n".join(tokenizer.alphabet).encode()).hexdigest()[:16]


def drafter_dir(target: Path, kind: str) -> Path:
    """Return the folder of a target's drafter of a kind."""
    return target / FOLDER / kind


def recipe_name(folder: Path) -> str:
    """Return the name of the recipe that trains the drafter of a folder, by its kind and its target's task."""
    try:
        task: str = read_config(folder.parent.parent)[0]
    except CheckpointError:
        task = "retro"
    return f"{task}-{folder.name.replace('_', '-')}"


def build(kind: str, shape: Mapping[str, Any]) -> Transformer | Heads:
    """Make a network of a kind, with random weights.

    Raises:
        ValueError: for a shape that this kind cannot have.
    """
    return _network(_shape(kind, shape))


def _shape(kind: str, shape: Mapping[str, Any]) -> ModelConfig | HeadsConfig:
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(KINDS)}")
    try:
        return (ModelConfig if kind == "spec_drafter" else HeadsConfig).from_json(dict(shape))
    except (TypeError, AttributeError) as error:
        raise ValueError(f"the architecture is not one of a {kind} drafter: {error}") from error


def _network(shape: ModelConfig | HeadsConfig) -> Transformer | Heads:
    return Transformer(shape) if isinstance(shape, ModelConfig) else Heads(shape)


def save(
    folder: Path, model: Transformer | Heads, tokenizer: Tokenizer, *, kind: NetworkKind, length: int, target: str = ""
) -> None:
    """Write a drafter's folder, its matrices in bfloat16 as `checkpoint.save` does; a card is written by hand.

    Args:
        folder: where.
        model: its weights.
        tokenizer: the target's vocabulary.
        kind: what it is.
        length: tokens that it drafts at once.
        target: digest of the only target it works with; empty for one that reads nothing of the target.

    Raises:
        CheckpointError: for weights that are not finite.
    """
    config = {
        "kind": kind,
        "length": length,
        "vocabulary": vocabulary(tokenizer),
        "target": target,
        "model": model.config.to_json(),
    }
    write(folder, model, config)


def load(folder: Path, *, tokenizer: Tokenizer, target: str = "") -> DrafterCheckpoint:
    """Read a drafter's folder.

    Args:
        folder: see `drafter_dir`.
        tokenizer: the target's, which has to be the drafter's.
        target: digest of the target (`Checkpoint.digest`); a drafter bound to other weights is refused.

    Raises:
        CheckpointError: for a drafter that is missing, damaged, or made for another vocabulary or target.
    """
    config_file, weights_file = folder / "config.json", folder / "model.safetensors"
    command = f"chemspec train --recipe {recipe_name(folder)}"
    if not config_file.is_file() or not weights_file.is_file():
        raise CheckpointError(f"there is no drafter in {folder}; `{command}` trains one")
    try:
        config = read_json(config_file)
        kind, length = config["kind"], config["length"]
        if kind not in KINDS or type(length) is not int or not 1 <= length <= MOST_TOKENS:
            raise ValueError(f"kind {kind!r} and length {length!r} are not those of a drafter")
        if config["vocabulary"] != vocabulary(tokenizer):
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
        shape = _shape(kind, config["model"])
        model = build_filled(lambda: _network(shape), state, where=str(weights_file))
        if isinstance(model, Transformer):
            check_computes(TorchBackend(model), model.config, where=str(weights_file))
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{config_file}: no drafter's config: {error}") from error
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{weights_file} cannot be read: {error}") from error
    return DrafterCheckpoint(kind, length, model, folder, bound, digest_of(folder))
