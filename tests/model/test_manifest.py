"""Shipped model folders have a manifest: damage is named at loading; folders without one load as before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

import pytest
from helpers.paths import ROOT

from chemspec.engine.confidence import Confidence
from chemspec.engine.engine import Engine
from chemspec.model import checkpoint
from chemspec.model.checkpoint import CheckpointError, digest_of_folder
from chemspec.model.manifest import LISTED, MANIFEST, checked_digest, refresh_manifest, write_manifest

MODELS = ROOT / "assets" / "models"
SHIPPED = sorted(file.parent for file in MODELS.rglob("model.safetensors"))


@pytest.fixture
def folder(tiny_retro: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny_retro, tmp_path / "m")
    write_manifest(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda path: str(path.relative_to(MODELS)))
def test_every_shipped_folder_is_as_its_manifest_says(shipped: Path) -> None:
    """After a change on purpose: `chemspec.model.manifest.write_manifest(folder)`."""
    assert checked_digest(shipped) == digest_of_folder(shipped)
    listed = json.loads((shipped / MANIFEST).read_text())["sha256"]
    assert set(listed) == {name for name in LISTED if (shipped / name).is_file()}


def test_shipped_folders_are_found() -> None:
    assert {"retro", "forward", "reagents", "retro-50k"} <= {path.name for path in SHIPPED} and len(SHIPPED) > 8


def test_any_bit_that_flips_is_noticed(folder: Path) -> None:
    random = Random(0)
    for _ in range(60):
        file = folder / random.choice(("vocab.json", "config.json", "model.safetensors", "vocab.json"))
        content = file.read_bytes()
        place = random.randrange(8 * len(content))
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        file.write_bytes(damaged)
        with pytest.raises(
            CheckpointError, match=rf"{file.name} is damaged or was changed: its SHA-256 .* install the"
        ):
            checkpoint.load(folder)
        file.write_bytes(content)
    checkpoint.load(folder)


def test_exchanged_tokens_of_a_vocabulary_are_noticed(folder: Path) -> None:
    vocabulary = (folder / "vocab.json").read_text()
    (folder / "vocab.json").write_text(vocabulary.replace('"Cl"', '"X"').replace('"Br"', '"Cl"').replace('"X"', '"Br"'))
    assert (folder / "vocab.json").read_text() != vocabulary
    with pytest.raises(CheckpointError, match=r"vocab\.json is damaged"):
        Engine.load(folder)
    (folder / MANIFEST).unlink()
    Engine.load(folder)


def test_a_file_that_is_missing_or_changed_is_named(folder: Path) -> None:
    (folder / "confidence.json").write_text("{}")
    checkpoint.load(folder)  # not listed: it was added later
    write_manifest(folder)
    (folder / "confidence.json").write_text("{ }")
    with pytest.raises(CheckpointError, match=r"confidence\.json is damaged"):
        checkpoint.load(folder)
    (folder / "confidence.json").unlink()
    with pytest.raises(CheckpointError, match=r"confidence\.json is missing, which manifest\.json lists"):
        checkpoint.load(folder)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"sha256": []}', '{"sha256": {}}', '{"sha256": {"../x": "a"}}', '{"sha256": 3}', "\0" * 9,
     '{"sha256": {"vocab.json": "a"}}', '{"sha256": {"model.safetensors": "a", "config.json": "b", "/a": ""}}'],
)  # fmt: skip
def test_a_damaged_manifest_is_refused(folder: Path, text: str) -> None:
    (folder / MANIFEST).write_text(text)
    with pytest.raises(CheckpointError, match=r"manifest\.json is damaged"):
        checkpoint.load(folder)


def test_whoever_writes_into_a_folder_refreshes_its_manifest(folder: Path, tmp_path: Path) -> None:
    loaded = checkpoint.load(folder)
    Confidence(loaded.digest, 1.0, 0.0, "made", {}).save(folder)
    assert checkpoint.load(folder).digest == loaded.digest
    assert "confidence.json" in json.loads((folder / MANIFEST).read_text())["sha256"]
    checkpoint.save(folder, loaded.model, loaded.tokenizer, task="retro", half=True)
    assert not (folder / MANIFEST).exists(), "it listed other files"
    refresh_manifest(folder)
    assert not (folder / MANIFEST).exists(), "a folder without one gets none by the way"
    assert checkpoint.load(folder).digest == digest_of_folder(folder)
