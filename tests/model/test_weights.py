"""Weights as plain arrays: the same numbers as the network's, without torch."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.compilers import needs_compiler
from helpers.paths import ROOT
from programs import int8_reference as int8
from safetensors.torch import save_file

from chemspec.model.transformer import Transformer
from chemspec.model.weights import quantise_rows, read_tensors, tensor_shapes
from chemspec.settings import ModelConfig

OPTIONS = ("final_norms", "shared_embedding", "tied_output", "output_bias", "stored_positions")


def tiny(*chosen: bool, layers: int = 2) -> ModelConfig:
    sizes = {"vocab_size": 9, "d_model": 16, "heads": 4, "feedforward": 24, "max_positions": 11}
    options = dict(zip(OPTIONS, chosen, strict=True))
    return ModelConfig(**sizes, **options, encoder_layers=1, decoder_layers=layers)  # type: ignore[arg-type]


@pytest.mark.parametrize("chosen", list(product((True, False), repeat=len(OPTIONS))))
def test_the_tensors_are_those_of_the_network(chosen: tuple[bool, ...]) -> None:
    model = Transformer(tiny(*chosen))
    theirs = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if model.config.tied_output:  # not stored
        del theirs["output.weight"]
    assert dict(tensor_shapes(model.config)) == theirs
    weights = model.weights
    assert set(weights.tensors) == set(theirs)
    again = Transformer.of(weights)
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert np.array_equal(weights.output, model.output.weight.detach().numpy())
    assert np.array_equal(weights.target_table, model.target_table.weight.detach().numpy())
    assert np.array_equal(weights.positions, model.positions.numpy())
    rounded = model.to(torch.bfloat16)  # the table, too, though no file holds it
    assert np.array_equal(rounded.weights.positions, rounded.positions.float().numpy())


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_every_kind_of_floats_is_read_as_torch_reads_it(tmp_path: Path, kind: torch.dtype) -> None:
    torch.manual_seed(0)
    spread = torch.randn(40, 7, dtype=torch.float64) * 10.0 ** torch.randint(-12, 5, (40, 7))
    stored = {
        "a": spread.to(kind),
        "b": torch.tensor([0.0, -0.0, 1e-40]).to(kind),
        "scalar": torch.tensor(2.5).to(kind),
    }
    save_file(stored, tmp_path / "x.safetensors")
    read = read_tensors(tmp_path / "x.safetensors")
    for name, tensor in stored.items():
        assert read[name].dtype == np.float32 and read[name].shape == tuple(tensor.shape)
        assert np.array_equal(read[name].view(np.uint32), tensor.float().numpy().view(np.uint32)), name


def test_matrices_are_rounded_as_in_torch() -> None:
    torch.manual_seed(1)
    matrix = torch.randn(50, 33) * 10.0 ** torch.randint(-20, 20, (50, 1))
    matrix[3], matrix[4], matrix[5] = 0, 1e-31, torch.linspace(-1.5, 1.5, 33)  # with halves to round
    expected, expected_scale = int8.quantise(matrix)
    found, scale = quantise_rows(matrix.numpy())
    assert found.dtype == np.int8 and np.array_equal(found, expected.numpy())
    assert np.array_equal(scale.view(np.uint32), expected_scale.numpy().view(np.uint32))


@needs_compiler
def test_a_model_is_loaded_and_asked_without_torch() -> None:
    """The import of torch takes longer than an answer; on a GPU it is needed all the same."""
    code = """
import sys
import chemspec
from chemspec.model.runners.native.build import load_kernel
load_kernel()
for dtype in ("fp32", "int8"):
    engine = chemspec.load("retro", device="cpu", dtype=dtype)
    assert engine.predict("CC(=O)Nc1ccc(O)cc1", n=2, max_len=40).status == "ok"
    assert engine.predict(["CCO", "CC(=O)Nc1ccccc1"], n=2, decoder="greedy", drafter="mixed", max_len=40)[1].hypotheses
print("torch" in sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.stdout == "False\n", run.stderr
