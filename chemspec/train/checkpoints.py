"""Checkpoints of a training run: written atomically, found, and read."""

from pathlib import Path
from typing import Any

import torch

from chemspec.system.files import open_atomic

LAST = "last.ckpt"


def write_checkpoint(file: Path, content: dict[str, Any]) -> None:
    """Write a temporary file, then rename it; raises OSError with a remedy for a full disk."""
    file.parent.mkdir(parents=True, exist_ok=True)
    for left_by_kill in file.parent.glob(f"{file.name}.*.partial"):  # a run folder has one writer
        left_by_kill.unlink()
    try:
        with open_atomic(file) as out:
            torch.save(content, out)
    except (OSError, RuntimeError) as error:
        # torch reports a full disk as a RuntimeError about its zip writer
        raise OSError(
            f"{file} could not be written ({error}); is the disk full? "
            f"Free some space, then resume from the newest checkpoint in {file.parent}"
        ) from error


def read_checkpoint(file: Path) -> dict[str, Any]:
    """Read a checkpoint, also one of Lightning, which trained before version 0.3; ValueError names a damaged file."""
    try:
        saved: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        if "global_step" not in saved or "state_dict" not in saved:
            raise ValueError("it has no model or no number of steps")
        if "optimizer_states" in saved:
            saved["optimizer"] = saved["optimizer_states"][0]
            saved.setdefault("seconds", saved["callbacks"]["Timer"]["time_elapsed"]["train"])
    except FileNotFoundError:
        raise
    except Exception as error:  # torch raises errors of many types for other files
        raise ValueError(f"{file} is not a training checkpoint: {error}") from error
    return saved


def numbered_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of validations, oldest first."""
    return sorted(folder.glob("step=*.ckpt"), key=_step)


def _step(file: Path) -> int:
    return int(file.stem.removeprefix("step="))


def latest_checkpoint(out: Path) -> Path | None:
    """Return the checkpoint to resume, or None; a run killed before writing `last.ckpt` has numbered ones only."""
    folder = out / "checkpoints"
    return folder / LAST if (folder / LAST).exists() else next(reversed(numbered_checkpoints(folder)), None)


def newest_checkpoints(folder: Path, count: int) -> list[Path]:
    """Return the `count` newest checkpoints, oldest first; the last step may have been saved twice."""
    final = folder / LAST
    if count == 1:
        return [final]
    end = int(read_checkpoint(final)["global_step"])
    return [*[file for file in numbered_checkpoints(folder) if _step(file) < end][1 - count :], final]
