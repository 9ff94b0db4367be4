"""CUDA graphs on a GPU if there is one; otherwise the same laws on the CPU, without recording.

Needs neither RDKit nor Streamlit nor pandas, so that it runs on a machine that is lent for half an hour.
"""

from __future__ import annotations

import gc
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from helpers.tiny import tiny_model

from chemspec.decode import registry as decoders
from chemspec.decode.decoding import Decoding
from chemspec.decode.generate import continuous_batching, open_decoding
from chemspec.decode.protocol import LoopOptions
from chemspec.draft.copy import Copy
from chemspec.draft.registry import NoDrafts
from chemspec.model import checkpoint
from chemspec.model.runners.cuda_graphs import GraphBackend, rows_for
from chemspec.model.runners.torch_runner import TorchBackend
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


def sources_of(count: int, longest: int = 30) -> list[tuple[int, ...]]:
    random = np.random.default_rng(count)
    return [tuple(random.integers(4, VOCAB, size).tolist()) for size in random.integers(3, longest, count)]


def decoded(
    backend: TorchBackend, sources: list[tuple[int, ...]], settings: DecodeSettings, drafter: Any
) -> list[list[tuple[tuple[int, ...], tuple[float, ...]]]]:
    session = Session(backend, sources, top_k=decoders.required_top_k(settings, backend.model.config.vocab_size))
    run = Decoding(
        sources,
        [decoders.build_decoder(source, settings, drafter) for source in sources],
        session,
        drafter,
        LoopOptions(max_len=settings.max_len, budget=0 if isinstance(drafter, NoDrafts) else 64),
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


@pytest.mark.parametrize("settings", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_graphs_give_the_answers_of_eager_torch(settings: DecodeSettings) -> None:
    sources = sources_of(40 if GPU else 4)
    expected = decoded(eager(), sources, settings, NoDrafts())
    backend = graphs()
    for drafter in (NoDrafts(), Copy(length=8, count=2)):
        for _ in range(2 if GPU else 1):  # replayed the second time
            alike(decoded(backend, sources, settings, drafter), expected)


@pytest.mark.slow  # many recordings
def test_more_shapes_than_are_kept_can_be_recorded_again() -> None:
    backend = graphs()
    backend.idle_bytes = 1  # every arena goes as soon as it is given back
    first: dict[int, Any] = {}
    for _ in range(2):
        for rows in (1, 8, 64, 128) if GPU else (1, 8):
            assert rows_for(rows) == rows
            session = Session(backend, [(4, 5, 6)] * rows, top_k=3)
            for end in range(1, 5):
                prefix = (BOS, 4, 5, 6)[:end]
                scored = session.score([[prefix]] * rows)
            expected = first.setdefault(rows, scored[0][prefix])
            assert scored[-1][prefix].ids == expected.ids
            del session
            gc.collect()


def test_threads_that_share_a_model_do_not_disturb_each_other() -> None:
    backend, sources = graphs(), sources_of(6 if GPU else 3)
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


def test_a_large_batch_shrinks_to_its_last_query() -> None:
    sources = sources_of(256 if GPU else 5)
    alike(decoded(graphs(), sources, GREEDY, NoDrafts()), decoded(eager(), sources, GREEDY, NoDrafts()), within=2e-3)


def test_queries_join_a_running_batch() -> None:
    """Three queries at a time, of which each that is finished is replaced; as if each were alone."""
    sources, backend = sources_of(40 if GPU else 9), graphs()
    waiting, found = list(enumerate(sources)), dict[int, Any]()

    def begin(rows: Any) -> Any:
        chosen = [decoders.build_decoder(source, GREEDY, Copy(length=8, count=2)) for _, source in rows]
        vocab = backend.model.config.vocab_size if GPU else VOCAB
        options = LoopOptions(max_len=GREEDY.max_len, budget=16, vocab_size=vocab)
        copying = Copy(length=8, count=2)
        run = open_decoding(backend, [source for _, source in rows], chosen, options, copying, top_k=2)
        return run, lambda more: run.add_queries(
            [source for _, source in more],
            [decoders.build_decoder(source, GREEDY, Copy(length=8, count=2)) for _, source in more],
        )

    def more(count: int) -> Any:
        taken = waiting[:count]
        del waiting[:count]
        return taken

    for (number, _), done in continuous_batching(more, lambda row: row, begin, size=3):
        found[number] = [(one.tokens, one.log_probs) for one in done.answers]
    expected = decoded(eager(), sources, GREEDY, NoDrafts())
    alike([found[number] for number in range(len(sources))], expected)


def test_half_precision_answers_are_near() -> None:
    """Exact up to rounding only: most answers are the same, and all are about as probable."""
    sources = sources_of(40 if GPU else 4)
    expected = decoded(eager(), sources, GREEDY, NoDrafts())
    found = decoded(graphs(torch.bfloat16), sources, GREEDY, NoDrafts())
    same = sum(ours[0][0] == theirs[0][0] for ours, theirs in zip(found, expected, strict=True))
    assert same >= len(sources) // 2
    assert all(np.isfinite(one[0][1]).all() for one in found)
