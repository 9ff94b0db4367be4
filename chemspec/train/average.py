"""Average the weights of a run's last checkpoints, or of several models."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from chemspec.model import checkpoint
from chemspec.model.manifest import write_manifest
from chemspec.model.transformer import Transformer
from chemspec.model.weights import CheckpointError
from chemspec.train.checkpoints import read_checkpoint


def average_models(folders: Sequence[Path], out: Path) -> Path:
    """Write the mean of models as a folder; raises CheckpointError if they differ in task, config or vocabulary."""
    models = [checkpoint.load(folder) for folder in folders]
    first = models[0]
    for folder, other in zip(folders, models, strict=True):
        if (other.task, other.config, other.tokenizer.tokens) != (first.task, first.config, first.tokenizer.tokens):
            raise CheckpointError(f"{folder} has another task, architecture or vocabulary than {folders[0]}")
    model = Transformer(first.config)
    model.load_state_dict(_mean([loaded.model.state_dict() for loaded in models]))
    checkpoint.save(out, model, first.tokenizer, task=first.task)
    write_manifest(out)
    return out


def average_checkpoints(files: list[Path]) -> dict[str, Tensor]:
    """Return the mean of the models in checkpoints."""
    mean = _mean([read_checkpoint(file)["state_dict"] for file in files])
    return {name.removeprefix("model."): tensor for name, tensor in mean.items()}


def _mean(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of state dicts, added in double precision."""
    return {name: torch.stack([state[name].double() for state in states]).mean(0).float() for name in states[0]}
