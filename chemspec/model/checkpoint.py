"""A model folder: `model.safetensors`, `config.json`, `vocab.json`, `card.md`. Never a pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig, Task
from chemspec.tokenizer import Tokenizer


class CheckpointError(ValueError):
    """A model folder that cannot be used; the message names the file and the fault."""


@dataclass(frozen=True)
class Checkpoint:
    """A model as loaded: the network in fp32 on the CPU, its vocabulary, its task and where it came from."""

    name: str
    task: Task
    model: Transformer
    tokenizer: Tokenizer
    folder: Path
    digest: str  # of weights and config: names caches


def save(folder: Path, model: Transformer, tokenizer: Tokenizer, *, task: Task, half: bool = True) -> None:
    """Write a model folder; `half` stores fp16, which halves the size and costs no measurable accuracy."""
    folder.mkdir(parents=True, exist_ok=True)
    state = model.state_dict()
    if model.config.tied_output:
        del state["output.weight"]
    dtype = torch.float16 if half else torch.float32
    save_file({name: tensor.detach().to(dtype).contiguous() for name, tensor in state.items()}, _weights(folder))
    config = {"task": task, **model.config.to_json()}
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    tokenizer.save(folder / "vocab.json")


def load(folder: Path) -> Checkpoint:
    """Read a model folder.

    Raises:
        CheckpointError: for a missing file, an unknown config key, a missing, superfluous or misshapen tensor.
    """
    config_file, weights_file, vocab_file = folder / "config.json", _weights(folder), folder / "vocab.json"
    for file in (config_file, weights_file, vocab_file):
        if not file.is_file():
            raise CheckpointError(f"{folder} is no model folder: {file.name} is missing")
    try:
        values = json.loads(config_file.read_text(encoding="utf-8"))
        task = values.pop("task")
        config = ModelConfig.from_json(values)
        tokenizer = Tokenizer.load(vocab_file)
        state = load_file(weights_file)
    except (ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise CheckpointError(f"{folder} cannot be read: {error}") from error
    if task not in ("forward", "retro"):
        raise CheckpointError(f"{config_file}: task {task!r} is not forward or retro")
    if len(tokenizer) != config.vocab_size:
        raise CheckpointError(f"{folder}: {len(tokenizer)} tokens in vocab.json, vocab_size {config.vocab_size}")
    model = Transformer(config)
    fill(model, state, where=str(weights_file))
    digest = hashlib.sha256(weights_file.read_bytes() + config_file.read_bytes()).hexdigest()[:16]
    return Checkpoint(folder.name, task, model.eval().requires_grad_(False), tokenizer, folder, digest)


def fill(model: Transformer, state: Mapping[str, Tensor], *, where: str) -> None:
    """Copy tensors into a model; every one must be there, fit, and be finite.

    Raises:
        CheckpointError: naming the tensors at fault.
    """
    own = model.state_dict()
    if model.config.tied_output:
        del own["output.weight"]
    faults = [f"{name} is missing" for name in own if name not in state]
    faults += [f"{name} is not part of this architecture" for name in state if name not in own]
    for name, tensor in state.items():
        if name in own and tensor.shape != own[name].shape:
            faults.append(f"{name} has shape {tuple(tensor.shape)}, expected {tuple(own[name].shape)}")
        elif not torch.isfinite(tensor).all():
            faults.append(f"{name} holds infinite or undefined numbers")
    if faults:
        more = f" (and {len(faults) - 3} more faults)" if len(faults) > 3 else ""
        raise CheckpointError(f"{where}: {'; '.join(faults[:3])}{more}")
    values: dict[str, Any] = {name: tensor.to(own[name].dtype) for name, tensor in state.items()}
    model.load_state_dict(values, strict=False)


def _weights(folder: Path) -> Path:
    return folder / "model.safetensors"
