"""What a runtime settles on a GPU; there may be none here, so torch is told that there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.case_tables import table
from helpers.tiny import tiny_model

from chemspec.model.checkpoint import Checkpoint
from chemspec.model.runners import cuda_graphs
from chemspec.model.runtime import RuntimeConfig
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import SPECIALS, Tokenizer


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"NVIDIA H{100 if device == 'cuda' else 200}")
    yield
    torch.backends.cuda.enable_cudnn_sdp(True)


def find(**changes: Any) -> RuntimeConfig:
    return RuntimeConfig.find(**{"device": "cuda", "dtype": "fp32", "runtime": "auto", "threads": 1, **changes})


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:1"])
def test_attention_on_a_gpu_is_none_of_cudnns(device: str) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    find(device="cpu")
    assert torch.backends.cuda.cudnn_sdp_enabled()
    find(device=device)
    assert not torch.backends.cuda.cudnn_sdp_enabled()


@pytest.mark.usefixtures("cuda")
def test_a_gpu_beyond_the_last_one_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no usable GPU 'cuda:2' on this machine, which has 2"):
        find(device="cuda:2")


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """A tiny model that stays on the CPU when it is moved to a GPU, and whose graphs are not captured."""
    model = tiny_model(0, 12)
    monkeypatch.setattr(cuda_graphs, "CudaGraphs", lambda: lambda function, _: function)
    monkeypatch.setattr(type(model), "to", lambda self, **_: self)
    return Checkpoint("tiny", "retro", model.weights, Tokenizer((*SPECIALS, *"CNOSFPIB")), tmp_path, "0")


@pytest.mark.usefixtures("cuda")
def test_a_gpu_gets_graphs_and_torch_by_name(loaded: Checkpoint) -> None:
    for dtype in ("fp32", "bf16"):
        assert find(dtype=dtype).backend(loaded)[1] == "graphs"
    assert find(runtime="torch").backend(loaded)[1] == "torch"
    assert find(device="cpu", dtype="bf16").backend(loaded)[1] == "torch"


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("name", ["auto", "graphs"])
def test_graphs_that_replay_something_else_are_replaced_with_a_message(
    name: str, loaded: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pass of each size is computed, and only later ones are replayed."""
    monkeypatch.setattr(cuda_graphs, "CudaGraphs", lambda: lambda *_: lambda: None)
    with pytest.warns(UserWarning, match=r"torch replaces the graphs runtime: its log-probs differ from torch's by"):
        assert find(runtime=name).backend(loaded)[1] == "torch"


@pytest.mark.usefixtures("cuda")
def test_a_runtime_that_breaks_is_replaced_with_a_message(loaded: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such driver")

    monkeypatch.setattr(cuda_graphs.GraphBackend, "acquire", fail)
    with pytest.warns(UserWarning, match="torch replaces the graphs runtime: it cannot run here: no such driver"):
        assert find(runtime="graphs").backend(loaded)[1] == "torch"


@pytest.mark.parametrize(("name", "dtype", "expected"), table("model/exactness"))
def test_exact_means_what_the_arithmetic_allows(name: str, dtype: str, expected: str) -> None:
    arithmetic = RuntimeConfig("cuda", dtype, name, 1).exactness
    assert arithmetic == expected
    assert DecodeSettings(decoder="beam").exactness(arithmetic) == f"exact {expected}"
    assert DecodeSettings(decoder="sbs").exactness(arithmetic) == "relaxed"
