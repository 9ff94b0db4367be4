"""Average the weights of a run's last checkpoints, or of several models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chemspec.model import checkpoint
from chemspec.model.manifest import write_manifest
from chemspec.model.transformer import Transformer
from chemspec.model.weights import CheckpointError


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


def newest_checkpoints(folder: Path, count: int) -> list[Path]:
    """Return the `count` newest checkpoints, oldest first; the last step may have been saved twice."""
    final = folder / "last.ckpt"
    if count == 1:
        return [final]
    end = int(read_checkpoint(final)["global_step"])
    steps = {int(file.stem.removeprefix("step=")): file for file in folder.glob("step=*.ckpt")}
    return [*[steps[step] for step in sorted(steps) if step < end][1 - count :], final]


def average_checkpoints(files: list[Path]) -> dict[str, Tensor]:
    """Return the mean of the models in Lightning checkpoints."""
    mean = _mean([read_checkpoint(file)["state_dict"] for file in files])
    return {name.removeprefix("model."): tensor for name, tensor in mean.items()}


def _mean(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of state dicts, added in double precision."""
    return {name: torch.stack([state[name].double() for state in states]).mean(0).float() for name in states[0]}


def read_checkpoint(file: Path) -> dict[str, Any]:
    """Read a Lightning checkpoint; raises ValueError naming the file, if it is damaged or not a checkpoint."""
    try:
        saved: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        if "global_step" not in saved or "state_dict" not in saved:
            raise ValueError("it has no model or no number of steps")
    except FileNotFoundError:
        raise
    except Exception as error:  # torch raises errors of many types for other files
        raise ValueError(f"{file} is not a training checkpoint: {error}") from error
    return saved
