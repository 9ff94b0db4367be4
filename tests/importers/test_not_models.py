"""Files that are no checkpoints are refused by what they are."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest
import torch

from chemspec.importers import model_formats
from chemspec.importers.pickled import CheckpointError


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("model.onnx", "ONNX.*exported from"),
        ("encoder_model.onnx", "ONNX"),
        ("weights.gguf", "GGUF"),
        ("model.bin", "CTranslate2"),
        ("saved_model.pb", "TensorFlow"),
    ],
)
def test_a_format_that_is_not_read_is_named_with_what_is(tmp_path: Path, file: str, what: str) -> None:
    (tmp_path / file).write_bytes(b"\x08\x07\x12\x04")
    for path in (tmp_path, tmp_path / file):
        with pytest.raises(CheckpointError, match=f"{what}.* chemspec reads .*OpenNMT-py.*LLaMA.*models.md"):
            model_formats.load(path)


def test_a_checkpoint_of_fairseq_is_named(tmp_path: Path) -> None:
    torch.save({"cfg": {}, "args": None, "model": {}, "extra_state": {}}, tmp_path / "checkpoint_best.pt")
    with pytest.raises(CheckpointError, match=r"is fairseq, which chemspec does not read.*OpenNMT-py"):
        model_formats.load(tmp_path / "checkpoint_best.pt")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n", "git lfs pull"),
        ("<!DOCTYPE html><html><body>404</body></html>", "a web page"),
        ("abc", "neither a model folder nor a torch checkpoint"),
    ],
)
def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path, content: str, what: str) -> None:
    (tmp_path / "model.pt").write_text(content)
    for path in (tmp_path / "model.pt", tmp_path):
        with pytest.raises(CheckpointError, match=what):
            model_formats.load(path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.json"])
def test_a_pointer_in_a_model_folder_is_named(tiny_retro: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    copytree(tiny_retro, folder)
    (folder / name).write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(CheckpointError, match=f"{name} is a Git LFS pointer"):
        model_formats.load(folder)


def test_a_pointer_in_a_folder_of_transformers_is_named_and_one_of_no_use_is_not(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    (tmp_path / "about.html").write_text("<html></html>")
    with pytest.raises(CheckpointError, match="task"):
        model_formats.load(tmp_path)
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(CheckpointError, match=r"model.safetensors is a Git LFS pointer"):
        model_formats.load(tmp_path)
