"""A model format of one's own: one file (this one) and one entry (the call of `register`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.plugin import install, scope_of
from helpers.small import TOKENIZER, tiny_folder
from helpers.table import Table

from chemspec import Importer, LoadedModel, LoadOptions
from chemspec.engine.engine import Engine
from chemspec.importers.model_formats import IMPORTERS
from chemspec.model.checkpoint import CheckpointError
from chemspec.model.runner import Backend
from chemspec.model.runtime import RuntimeConfig
from chemspec.settings import DecodeSettings, ModelDims

# --- the file ------------------------------------------------------------------------------------


def recognises(folder: Path) -> bool:
    return (folder / "toy.json").is_file()


def load(folder: Path, options: LoadOptions) -> LoadedModel:
    values = json.loads((folder / "toy.json").read_text())
    if "seed" not in values:
        raise CheckpointError(f"{folder}: toy.json has no seed")
    sizes = ModelDims(vocab_size=values.get("size", len(TOKENIZER)), max_positions=100)

    def backend(runtime: RuntimeConfig) -> tuple[Backend, str]:
        if runtime.device != "cpu":
            raise ValueError("a toy is computed on the CPU")
        return Table(values["seed"], vocab_size=len(TOKENIZER), copying=5.0), "toy"

    task = options.task or "retro"
    return LoadedModel(options.name or folder.name, task, TOKENIZER, sizes, folder, f"toy-{values['seed']}", backend)


TOY = Importer("toy", recognises, load)

# --- what follows from it ------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.json").write_text('{"seed": 3}')
    with scope_of(IMPORTERS):
        IMPORTERS.register(TOY)
        yield tmp_path / "toy"


@pytest.mark.parametrize("decoder", ["greedy", "beam"])
def test_the_engine_answers_with_it(folder: Path, decoder: str) -> None:
    engine = Engine.load(folder, task="forward", device="cpu", threads=1)
    assert (engine.name, engine.task, engine.runtime, engine.digest) == ("toy", "forward", "toy", "toy-3")
    plain, drafted = (
        engine.predict(["CCO", "c1ccccc1"], DecodeSettings(decoder=decoder, drafter=name, n=1, max_len=20))
        for name in ("none", "copy")
    )
    for one, other in zip(plain, drafted, strict=True):
        assert one.status == "ok" and one.hypotheses[0].tokens
        assert [answer.tokens for answer in one.hypotheses] == [answer.tokens for answer in other.hypotheses]


def test_other_formats_are_still_told_apart(folder: Path, tmp_path: Path) -> None:
    ours = tiny_folder(tmp_path / "ours")
    assert Engine.load(ours, device="cpu", threads=1, runtime="torch").runtime == "torch"
    (tmp_path / "nothing").mkdir()
    with pytest.raises(CheckpointError, match=r"is no model folder: config\.json is missing"):
        Engine.load(tmp_path / "nothing")
    (folder / "toy.json").write_text("{}")
    with pytest.raises(CheckpointError, match="has no seed"):
        Engine.load(folder, device="cpu")
    (folder / "toy.json").write_text('{"seed": 3, "size": 5}')
    with pytest.raises(CheckpointError, match=rf"its tokenizer has {len(TOKENIZER)} tokens, the model 5"):
        Engine.load(folder, device="cpu")


def test_other_packages_plug_in_by_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(install(tmp_path, "chemspec.importers", toy="test_toy_importer:TOY")))
    with scope_of(IMPORTERS):
        assert IMPORTERS["toy"].name == "toy"
    assert "toy" not in IMPORTERS
