"""What a GPU has to show, on one if there is one; otherwise the same laws on the CPU, with stand-ins.

Needs neither RDKit nor Streamlit nor pandas, so that it runs on a machine that is lent for half an hour.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
import triton_reference as reference
from tiny import tiny_model

from chemspec.decode import registry as decoders
from chemspec.decode.decoding import Decoding
from chemspec.draft.copy import Copy
from chemspec.draft.registry import NoDrafts
from chemspec.model import checkpoint
from chemspec.model.runner import Backend
from chemspec.model.runners.cuda_graphs import GraphBackend, rows_for
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.runners.triton.runner import TritonBackend, UnsupportedError
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings, preset_config
from chemspec.system.gpu import avoid_cudnn_attention
from chemspec.tokenizer import BOS

GPU = torch.cuda.is_available()
pytestmark = [pytest.mark.gpu] if GPU else []
if GPU:
    avoid_cudnn_attention()  # as `RuntimeConfig.find` does
DEVICE = torch.device("cuda" if GPU else "cpu")
WEIGHTS = Path(__file__).parents[1] / "assets" / "models" / "retro"
VOCAB = 30
GREEDY = DecodeSettings(decoder="greedy", n=1, max_len=24 if GPU else 14)
BEAM = DecodeSettings(decoder="beam", n=4 if GPU else 2, max_len=24 if GPU else 14)


def model_of(dtype: torch.dtype = torch.float32) -> Transformer:
    """The shipped weights where there is a GPU; on a CPU, a tiny model does."""
    if not GPU:
        shape: dict[str, Any] = {"d_model": 32, "heads": 4, "feedforward": 64, "max_positions": 128}
        return tiny_model(0, VOCAB, **shape).bfloat16().to(dtype)
    if (WEIGHTS / "model.safetensors").is_file():
        return checkpoint.load(WEIGHTS).model.to(dtype)
    torch.manual_seed(0)
    return Transformer(preset_config("small", vocab_size=80)).bfloat16().to(dtype).eval().requires_grad_(False)


def eager(dtype: torch.dtype = torch.float32) -> TorchBackend:
    return TorchBackend(model_of(dtype).to(DEVICE))


def graphs(dtype: torch.dtype = torch.float32) -> GraphBackend:
    return GraphBackend(model_of(dtype).to(DEVICE), record=None if GPU else lambda function, _: function)


def flat(dtype: str = "fp32") -> TritonBackend:
    try:
        return TritonBackend(model_of(), DEVICE, dtype=dtype, operations=None if GPU else reference)
    except UnsupportedError as why:
        pytest.skip(str(why))


def sources_of(count: int, longest: int = 30) -> list[tuple[int, ...]]:
    random = np.random.default_rng(count)
    return [tuple(random.integers(4, VOCAB, size).tolist()) for size in random.integers(3, longest, count)]


def decoded(
    backend: Backend, sources: list[tuple[int, ...]], settings: DecodeSettings, drafter: Any
) -> list[list[tuple[tuple[int, ...], tuple[float, ...]]]]:
    config = backend.config if isinstance(backend, TritonBackend) else backend.model.config  # type: ignore[attr-defined]
    session = Session(backend, sources, top_k=decoders.required_top_k(settings, config.vocab_size))
    run = Decoding(
        sources,
        [decoders.build_decoder(source, settings, drafter) for source in sources],
        session,
        drafter,
        max_len=settings.max_len,
        budget=0 if isinstance(drafter, NoDrafts) else 64,
        clock=lambda: 0.0,
    )
    return [[(one.tokens, one.log_probs) for one in own] for own in run.run_to_end()]


def alike(found: Any, expected: Any, within: float = 1e-3) -> None:
    """The same answers; but one may have taken another of two equal tokens (greedy), or two may have changed places."""
    for ours, theirs in zip(found, expected, strict=True):
        for (tokens, log_probs), (wanted, scores) in zip(ours, theirs, strict=True):
            least = min(len(tokens), len(wanted))
            same = next((at for at in range(least) if tokens[at] != wanted[at]), least)
            np.testing.assert_allclose(log_probs[:same], scores[:same], rtol=0, atol=within)
            if tokens != wanted and len(ours) == 1:
                assert abs(log_probs[same] - scores[same]) < within
            elif tokens != wanted:
                assert abs(sum(log_probs) - sum(scores)) < 10 * within


@pytest.mark.parametrize("make", [graphs, flat])
@pytest.mark.parametrize("settings", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_every_runtime_gives_the_answers_of_eager_torch(make: Callable[[], Backend], settings: DecodeSettings) -> None:
    sources = sources_of(40 if GPU else 4)
    expected = decoded(eager(), sources, settings, NoDrafts())
    backend = make()
    for drafter in (NoDrafts(), Copy(length=8, count=2)):
        for _ in range(2 if GPU else 1):  # recorded the second time
            alike(decoded(backend, sources, settings, drafter), expected)


@pytest.mark.parametrize("settings", [GREEDY, BEAM], ids=["greedy", "beam"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_drafts_and_batches_change_no_bit_of_the_flat_runner(settings: DecodeSettings, dtype: str) -> None:
    """What no other decoder on a GPU promises: speculative is standard, to the last bit, in each precision."""
    sources = sources_of(64 if GPU else 2, 30 if GPU else 8)
    backend = flat(dtype)
    expected = [decoded(backend, [source], settings, NoDrafts())[0] for source in sources]
    assert decoded(backend, sources, settings, NoDrafts()) == expected
    for drafter in (Copy(length=4, count=1), Copy(length=16, count=4)):
        assert decoded(backend, sources, settings, drafter) == expected
        assert [decoded(backend, [source], settings, drafter)[0] for source in sources[:8]] == expected[:8]


@pytest.mark.slow  # many recordings
@pytest.mark.parametrize("make", [graphs, flat])
def test_more_shapes_than_are_kept_can_be_recorded_again(make: Callable[[], Any]) -> None:
    backend = make()
    if isinstance(backend, GraphBackend):
        backend.idle_bytes = 1  # every arena goes as soon as it is given back
    first: dict[int, Any] = {}
    for _ in range(2):
        for rows in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if GPU else (1, 2, 3):
            assert rows_for(rows) == rows
            session = Session(backend, [(4, 5, 6)] * rows, top_k=3)
            for end in range(1, 5):
                prefix = (BOS, 4, 5, 6)[:end]
                scored = session.score([[prefix]] * rows)
            expected = first.setdefault(rows, scored[0][prefix])
            assert scored[-1][prefix].ids == expected.ids
            del session
            gc.collect()


@pytest.mark.parametrize("make", [graphs, flat])
def test_threads_that_share_a_model_do_not_disturb_each_other(make: Callable[[], Backend]) -> None:
    backend, sources = make(), sources_of(6 if GPU else 3)
    expected = [decoded(backend, [source], GREEDY, NoDrafts())[0] for source in sources]
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        found[number] = [decoded(backend, [source], GREEDY, Copy(length=5, count=1))[0] for source in sources]

    threads = [Thread(target=work, args=(number,)) for number in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 3
    for own in found.values():
        alike(own, expected)
        if isinstance(backend, TritonBackend):
            assert own == expected


@pytest.mark.parametrize("make", [graphs, flat])
def test_a_large_batch_shrinks_to_its_last_query(make: Callable[[], Backend]) -> None:
    sources = sources_of(256 if GPU else 5)
    alike(decoded(make(), sources, GREEDY, NoDrafts()), decoded(eager(), sources, GREEDY, NoDrafts()), within=2e-3)


def test_half_precision_answers_are_near() -> None:
    """Exact up to rounding only: most answers are the same, and all are about as probable."""
    sources = sources_of(40 if GPU else 4)
    expected = decoded(eager(), sources, GREEDY, NoDrafts())
    for backend in (graphs(torch.bfloat16), flat("bf16")):
        found = decoded(backend, sources, GREEDY, NoDrafts())
        same = sum(ours[0][0] == theirs[0][0] for ours, theirs in zip(found, expected, strict=True))
        assert same >= len(sources) // 2
        assert all(np.isfinite(one[0][1]).all() for one in found)


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="no CUDA device")
def test_the_interpreter_is_not_what_runs_here() -> None:
    """On a GPU the kernels are compiled, not the twins or the interpreter."""
    from chemspec.model.runners.triton import kernels

    assert type(kernels.linear_kernel).__name__ == "JITFunction"
    assert json.loads(json.dumps(torch.cuda.get_device_capability())) >= [8, 0]


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="no CUDA device")
def test_a_row_is_computed_alike_in_every_place_of_a_tile_and_beside_whatever() -> None:
    """What the flat runner's exactness rests on, and no CPU can show."""
    from chemspec.model.runners.triton import kernels
    from chemspec.model.runners.triton.weights import Matrix, Norm, split_bf16

    torch.manual_seed(0)
    for inputs, outputs in ((256, 768), (2048, 256)):
        parts = split_bf16(torch.randn(outputs, inputs).bfloat16()).to(DEVICE, torch.bfloat16)
        bias = torch.randn(outputs, device=DEVICE)
        norm = Norm(torch.randn(inputs, device=DEVICE), torch.randn(inputs, device=DEVICE), 1e-5)
        row = torch.randn(inputs, device=DEVICE)
        for matrix in (Matrix(parts, bias), Matrix(parts, bias, exact=False), Matrix(parts, bias, cut=True)):
            shape = (matrix.slices,) if matrix.slices > 1 else ()
            alone = torch.zeros(*shape, 1, outputs, device=DEVICE)
            kernels.linear(row[None].clone(), matrix, alone, norm=norm)
            for rows in (16, 37, 1024):
                x = torch.randn(rows, inputs, device=DEVICE)
                places = sorted({*range(min(rows, 17)), rows - 1})
                x[places] = row
                y = torch.zeros(*shape, rows, outputs, device=DEVICE)
                kernels.linear(x, matrix, y, norm=norm)
                assert torch.equal(y[..., places, :], alone.expand(*shape, len(places), outputs))
