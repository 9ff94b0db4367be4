"""Tests of model/checkpoint.py: what is saved is loaded, and every fault is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.case_tables import table
from safetensors.torch import load_file, save_file

from chemspec.model import checkpoint
from chemspec.model.checkpoint import CheckpointError
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig
from chemspec.tokenizer import SPECIALS, Tokenizer

TOKENIZER = Tokenizer((*SPECIALS, "C", "N", "O"))


def config(**options: Any) -> ModelConfig:
    sizes = {"d_model": 16, "heads": 2, "feedforward": 32, "encoder_layers": 1, "decoder_layers": 2}
    return ModelConfig(vocab_size=len(TOKENIZER), max_positions=32, **{**sizes, **options})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    checkpoint.save(tmp_path / "model", Transformer(config()), TOKENIZER, task="retro")
    return tmp_path / "model"


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"tied_output": False}, {"shared_embedding": False, "final_norms": False, "output_bias": False}]
)
def test_a_model_is_loaded_as_saved(tmp_path: Path, half: bool, options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    model = Transformer(config(**options)).eval()
    checkpoint.save(tmp_path / "m", model, TOKENIZER, task="forward", half=half)
    loaded = checkpoint.load(tmp_path / "m")
    assert (loaded.name, loaded.task, loaded.tokenizer) == ("m", "forward", TOKENIZER)
    assert loaded.model.config == model.config
    assert not loaded.model.training
    for name, tensor in model.state_dict().items():
        wanted = tensor.bfloat16().float() if half and tensor.ndim > 1 else tensor
        assert torch.equal(loaded.model.state_dict()[name], wanted), name
    assert not any(weight.requires_grad for weight in loaded.model.parameters())
    source, target = torch.tensor([[4, 5, 6]]), torch.tensor([[1, 4, 5]])
    close = torch.allclose(loaded.model(source, target), model(source, target), atol=2e-2)
    assert close
    if model.config.tied_output:
        assert loaded.model.output.weight is loaded.model.target_table.weight


def test_saving_twice_changes_nothing_and_leaves_no_other_files(folder: Path) -> None:
    first = checkpoint.load(folder)
    checkpoint.save(folder, first.model, TOKENIZER, task="retro")
    assert checkpoint.load(folder).digest == first.digest
    assert {file.name for file in folder.iterdir()} == {"config.json", "model.safetensors", "vocab.json"}
    checkpoint.save(folder, first.model, TOKENIZER, task="forward")
    assert checkpoint.load(folder).digest != first.digest


def test_weights_that_could_not_be_loaded_are_not_saved(tmp_path: Path) -> None:
    model = Transformer(config())
    with torch.no_grad():
        model.decoder.layers[1].linear1.weight[0, 0] = float("nan")
    for half in (True, False):
        with pytest.raises(CheckpointError, match=r"decoder\.layers\.1\.linear1\.weight .*undefined"):
            checkpoint.save(tmp_path / "m", model, TOKENIZER, task="retro", half=half)
    assert not (tmp_path / "m").exists()
    with pytest.raises(CheckpointError, match="5 tokens, but vocab_size 7"):
        checkpoint.save(tmp_path / "m", model, Tokenizer((*SPECIALS, "C")), task="retro")


def test_an_older_model_survives_a_failed_save(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = iter(("config.json", "model.safetensors"))

    def full(_: int) -> None:
        if next(files) == "model.safetensors":
            raise OSError(28, "No space left on device")

    older = checkpoint.load(folder)
    newer = Transformer(older.model.config)
    monkeypatch.setattr("chemspec.system.files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(folder, newer, TOKENIZER, task="retro")
    assert checkpoint.load(folder).digest == older.digest
    assert not list(folder.glob("*.partial"))


def test_who_may_read_the_config_may_read_the_weights(folder: Path) -> None:
    modes = {(folder / name).stat().st_mode for name in ("config.json", "model.safetensors")}
    assert len(modes) == 1


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "model.safetensors"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    for where in (folder, folder / "nowhere"):
        with pytest.raises(CheckpointError, match=rf"{where} is no model folder: {name if where == folder else ''}"):
            checkpoint.load(where)


FIRST = "encoder.layers.0.linear1.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop(FIRST), f"{FIRST} is missing"),
        (lambda state: state.update(extra=torch.ones(1)), "extra is not part of this architecture"),
        (lambda state: state.update({"output.weight": torch.ones(7, 16)}), "output.weight is not part"),
        (lambda state: state.update({FIRST: torch.ones(2, 3)}), f"{FIRST} has shape (2, 3), expected (32, 16)"),
        (lambda state: state[FIRST].fill_(float("nan")), f"{FIRST} holds infinite or undefined numbers"),
        (lambda state: state[FIRST].fill_(float("inf")), f"{FIRST} holds infinite or undefined numbers"),
        (lambda state: state.update({FIRST: torch.ones(32, 16, dtype=torch.int32)}), f"{FIRST} holds I32"),
        (lambda state: state.clear(), "more faults)"),
    ],
)
def test_a_faulty_tensor_is_named(folder: Path, change: Any, message: str) -> None:
    file = folder / "model.safetensors"
    state = load_file(file)
    change(state)
    save_file(state, file)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(folder)
    assert str(file) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x80\x04pickle", b"\xff" * 64, None])
def test_weights_that_are_no_safetensors_are_named(folder: Path, content: bytes | None) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10] if content is None else content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors cannot be read"):
        checkpoint.load(folder)


@pytest.mark.parametrize(("change", "message"), table("model/faulty_configs"))
def test_a_faulty_config_is_named(folder: Path, change: dict[str, Any], message: str) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(folder)
    assert str(file) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("content", ["", "[]", "null", "3", "{", '{"task": "retro"}', "[" * 100_000])
def test_a_config_of_another_form_is_named(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json: "):
        checkpoint.load(folder)


@pytest.mark.parametrize("content", ["", "{}", "[1]", "[]", "\udcff", json.dumps([*SPECIALS, "C"])])
def test_a_faulty_vocabulary_is_named(folder: Path, content: str) -> None:
    (folder / "vocab.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CheckpointError, match=r"vocab\.json" if "C" not in content else "5 tokens in .*, vocab_size 7"):
        checkpoint.load(folder)
