"""Write an imported model's folder, with a model card that states its origin."""

from __future__ import annotations

from pathlib import Path

from chemspec.importers.base import LoadedModel
from chemspec.model.checkpoint import CheckpointError

CARD = """# {name}

A {task} model trained by another program; imported by chemspec without further training or rounding.

| | |
|---|---|
{rows}

See its authors for training data, accuracy and known failures.
"""


def write_imported_model(loaded: LoadedModel, source: Path, folder: Path, *, license_text: str, command: str) -> None:
    """Write an imported model to a folder; raises CheckpointError if it is chemspec's, or the folder has a model."""
    if loaded.save is None:
        raise CheckpointError(f"{source} is a model folder already; copy it")
    if (folder / "model.safetensors").exists():
        raise CheckpointError(f"{folder} holds a model; choose another folder")
    license_row = license_text or "unknown; ask its authors before you use or share it"
    rows = {"source": str(source), "licence": license_row, **loaded.details, "imported by": f"`{command}`"}
    table = "\n".join(f"| {name} | {value.replace('|', '/')} |" for name, value in rows.items())
    loaded.save(folder, CARD.format(name=folder.name, task=loaded.task, rows=table))
