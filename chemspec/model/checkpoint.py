"""A model folder: `model.safetensors`, `config.json`, `vocab.json`, `card.md`. Never a pickle.

Loading does not import torch, which takes longer than a prediction; torch is imported on first use of `.model`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import chemspec.tasks as tasks
from chemspec.model import weights
from chemspec.model.probe import check_finite_scores
from chemspec.model.weights import CheckpointError as CheckpointError
from chemspec.model.weights import Weights
from chemspec.settings import ModelConfig, Task
from chemspec.system.files import write_text_atomic
from chemspec.system.untrusted import read_untrusted_json
from chemspec.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor, nn

    from chemspec.model.transformer import Transformer


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model: weights in fp32, vocabulary, task and origin."""

    name: str
    task: Task
    weights: Weights
    tokenizer: Tokenizer
    folder: Path
    digest: str  # of weights and config; part of cache keys
    notes: tuple[str, ...] = ()  # shown with every prediction

    @property
    def config(self) -> ModelConfig:
        """The architecture."""
        return self.weights.config

    @cached_property
    def model(self) -> Transformer:
        """The network, on the CPU.

        Raises:
            CheckpointError: if its scores are not finite.
        """
        from chemspec.model.runners.torch_runner import TorchBackend
        from chemspec.model.transformer import Transformer

        model = Transformer.of(self.weights)
        check_finite_scores(TorchBackend(model), self.config, where=str(self.folder))
        return model


def save(folder: Path, model: Transformer, tokenizer: Tokenizer, *, task: Task, half: bool = True) -> None:
    """Write a model folder.

    Args:
        folder: output folder.
        model: network to save.
        tokenizer: vocabulary of the model.
        task: what the model predicts.
        half: store matrices in bfloat16: half the size, and lossless for weights trained in bfloat16.

    Raises:
        CheckpointError: for a model that `load` would refuse; nothing is written then.
    """
    if len(tokenizer) != model.config.vocab_size:
        raise CheckpointError(f"{folder}: {len(tokenizer)} tokens, but vocab_size {model.config.vocab_size}")
    write_model_folder(folder, model, {"task": task, **model.config.to_json()}, half=half)
    tokenizer.save(folder / "vocab.json")


def write_model_folder(folder: Path, model: nn.Module, config: Mapping[str, Any], *, half: bool = True) -> None:
    """Write `config.json` and `model.safetensors`; old weights are replaced only once the new ones are complete.

    Raises:
        CheckpointError: for weights that are not finite; nothing is written then.
    """
    import torch
    from safetensors.torch import save_file

    state = {
        name: tensor.detach().to("cpu", torch.bfloat16 if half and tensor.ndim > 1 else torch.float32).contiguous()
        for name, tensor in stored_tensors(model).items()
    }
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f"{folder}: {name} holds infinite or undefined numbers")
    folder.mkdir(parents=True, exist_ok=True)
    write_text_atomic(folder / "config.json", json.dumps(config, indent=1))
    partial = folder / "model.safetensors.partial"
    try:
        save_file(state, partial)
        # `save_file` creates files readable by their owner only; give the weights the permissions of the config.
        shutil.copymode(folder / "config.json", partial)
        partial.replace(_weights_file(folder))
    finally:
        partial.unlink(missing_ok=True)


def load(folder: Path) -> Checkpoint:
    """Read a model folder.

    Raises:
        CheckpointError: for a missing file, an unknown config key, a missing, superfluous or misshapen tensor.
    """
    config_file, weights_file, vocab_file = (folder / "config.json", _weights_file(folder), folder / "vocab.json")
    for file in (config_file, weights_file, vocab_file):
        if not file.is_file():
            raise CheckpointError(f"{folder} is no model folder: {file.name} is missing")
    try:
        task, config = _read_config(config_file)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{config_file}: {error}") from error
    try:
        tokenizer = Tokenizer.load(vocab_file)
    except (OSError, ValueError) as error:  # they name the file
        raise CheckpointError(str(error)) from error
    if len(tokenizer) != config.vocab_size:
        raise CheckpointError(f"{folder}: {len(tokenizer)} tokens in vocab.json, vocab_size {config.vocab_size}")
    return Checkpoint(
        folder.name, task, weights.read_weights(weights_file, config), tokenizer, folder, digest_of_folder(folder)
    )


def digest_of_folder(folder: Path) -> str:
    """Return the digest of a model folder's weights and config, see `Checkpoint.digest`."""
    parts = _weights_file(folder).read_bytes() + (folder / "config.json").read_bytes()
    return hashlib.sha256(parts).hexdigest()[:16]


def stored_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors to store: a tied output layer is left out, being the embedding."""
    from chemspec.model.transformer import Transformer

    state: dict[str, Tensor] = model.state_dict()
    if isinstance(model, Transformer) and model.config.tied_output:
        del state["output.weight"]
    return state


M = TypeVar("M", bound="nn.Module")


def build_with_weights(build: Callable[[], M], state: Mapping[str, Tensor], *, where: str) -> M:
    """Build a network and load these weights into it, in fp32 and evaluation mode.

    Raises:
        CheckpointError: naming the tensors that are missing, misshapen, superfluous or not finite.
    """
    import torch

    # Shapes are checked before memory is allocated: the config of another model may need more than there is.
    with torch.device("meta"):
        expected = {name: tuple(tensor.shape) for name, tensor in stored_tensors(build()).items()}
    kinds = {name: "F32" if tensor.is_floating_point() else str(tensor.dtype) for name, tensor in state.items()}
    full = {name: tensor.float() for name, tensor in state.items()}
    weights.check_tensors(expected, {name: tensor.numpy() for name, tensor in full.items()}, kinds, where=where)
    model = build()
    model.load_state_dict(full, strict=False)
    return model.eval().requires_grad_(False)


def read_task(folder: Path) -> Task:
    """Return the task of a model folder's model, without loading its weights.

    Raises:
        CheckpointError: if the config is missing or invalid.
    """
    return read_config(folder)[0]


def read_config(folder: Path) -> tuple[Task, ModelConfig]:
    """Return a model folder's task and architecture, without loading its weights.

    Raises:
        CheckpointError: if the config is missing or invalid.
    """
    try:
        return _read_config(folder / "config.json")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / 'config.json'}: {error}") from error


def _read_config(file: Path) -> tuple[Task, ModelConfig]:
    """Parse task and architecture."""
    values = read_untrusted_json(file)
    if not isinstance(values, dict):
        raise ValueError("it does not hold a JSON object")
    task = tasks.check_task(values.pop("task", None))
    return task, ModelConfig.from_json(values)


def _weights_file(folder: Path) -> Path:
    return folder / "model.safetensors"
