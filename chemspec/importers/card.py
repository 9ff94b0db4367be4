"""Write an imported model's folder, with a card that says where it comes from."""

from __future__ import annotations

from pathlib import Path

from chemspec.importers.base import LoadedModel
from chemspec.model.checkpoint import CheckpointError

CARD = """# {name}

A {task} model that another program trained; imported by chemspec without training or rounding it.

| | |
|---|---|
{rows}

What it was trained on, how well it does and where it fails is for its authors to say.
"""


def write(loaded: LoadedModel, source: Path, folder: Path, *, license_text: str, command: str) -> None:
    """Write a model into a folder of its own.

    Args:
        loaded: the model.
        source: where it came from.
        folder: made; one with a model in it is left alone.
        license_text: as the user tells it.
        command: that imported it.

    Raises:
        CheckpointError: for one of our own models, or a folder that is taken.
    """
    if loaded.save is None:
        raise CheckpointError(f"{source} is a model folder already; copy it")
    if (folder / "model.safetensors").exists():
        raise CheckpointError(f"{folder} holds a model; choose another folder")
    told = license_text or "not told; ask its authors before you use or share it"
    rows = {"source": str(source), "licence": told, **loaded.found, "imported by": f"`{command}`"}
    table = "\n".join(f"| {name} | {value.replace('|', '/')} |" for name, value in rows.items())
    loaded.save(folder, CARD.format(name=folder.name, task=loaded.task, rows=table))
