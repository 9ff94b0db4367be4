"""Recorded passes: fixed places, padded sizes, and the scores of the plain torch runner.

There may be no GPU here, so a recording is traced instead: like a CUDA graph it repeats tensor operations on the
tensors it has seen and knows nothing of the Python around them.
"""

from __future__ import annotations

import gc
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_session import EAGER, VARIANTS, VOCAB, Round, check, model_of, scripts
from tiny import tiny_model
from torch.fx.experimental.proxy_tensor import make_fx

from chemspec.decode import registry as decoders
from chemspec.decode.generate import open_decoding
from chemspec.draft.base import NoDrafts
from chemspec.draft.copy import Copy
from chemspec.model.runner import NodeBatch
from chemspec.model.runners.cuda_graphs import COMMON, COMMON_SOURCES, Function, GraphBackend, rows_for
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Session
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import BOS

# The second kind of model takes as long again; the property tests draw all of them.
SOME = ["pre", pytest.param("source-specials", marks=[pytest.mark.slow, pytest.mark.nightly])]


class Tracer:
    """Stands in for CUDA graphs; only counts where nothing is to be traced."""

    def __init__(self, *, traces: bool = True) -> None:
        self.traces = traces
        self.recorded = self.replayed = 0

    def __call__(self, function: Function, device: torch.device) -> Function:
        self.recorded += 1
        traced = make_fx(lambda: function())() if self.traces else function

        def again() -> None:
            self.replayed += 1
            traced()

        return again


@cache
def backend_of(seed: int, variant: str) -> GraphBackend:
    """One for all examples, so that sessions find what others have left in the arenas."""
    return GraphBackend(model_of(seed, variant), record=lambda function, _: function)


def compare(found: Session, expected: Session, asked: list[Any]) -> None:
    for ours, theirs in zip(found.score(asked), expected.score(asked), strict=True):
        assert list(ours) == list(theirs)
        for prefix in ours:
            assert ours[prefix][0] == theirs[prefix][0]
            np.testing.assert_allclose(ours[prefix][1], theirs[prefix][1], rtol=0, atol=1e-12)


@given(scripts(), st.integers(0, 2), st.sampled_from(sorted(VARIANTS)))
def test_padded_passes_give_the_scores_of_a_model_without_cache(
    script: tuple[list[list[int]], list[Round]], seed: int, variant: str
) -> None:
    check(backend_of(seed, variant), model_of(seed, variant), *script, within=1e-9)


@pytest.mark.parametrize("variant", SOME)
def test_recordings_follow_a_session_that_grows_shrinks_and_is_compacted(variant: str) -> None:
    model, trace = model_of(0, variant), Tracer()
    backend, plain = GraphBackend(model, record=trace), TorchBackend(model)
    for sources in ([[4, 5, 6], [7], [8, 9, 4, 5]], [[9] * 40, [4], [5, 6]]):
        rng = np.random.default_rng(len(sources[0]))
        sessions = [Session(one, sources, top_k=VOCAB) for one in (backend, plain)]
        for session in sessions:
            session.compaction_threshold = EAGER
        for step in range(14):
            rows = sessions[0].queries
            width = (1, 2, 70)[step % 3] if step < 9 else 1
            asked = [[(BOS, step + 3, *rng.integers(2, VOCAB, 5).tolist()) for _ in range(width)] for _ in rows]
            asked = [[tuple(min(t, VOCAB - 1) for t in one) for one in own] for own in asked]
            known = [set(sessions[0].trees[row].slots) for row in rows]
            if all(set(own) <= held for own, held in zip(asked, known, strict=True)):
                continue
            compare(*sessions, asked)
            for session in sessions:
                if step % 4 == 3:
                    session.compact({row: own[:1] for row, own in zip(rows, asked, strict=True)})
                if step == 10:
                    session.release([1])
    assert trace.replayed > trace.recorded > 4


def test_a_size_is_recorded_once() -> None:
    trace = Tracer()
    backend = GraphBackend(model_of(0, "pre"), record=trace)
    for count in range(1, 5):
        Session(backend, [[4, 5]], top_k=3).score([[(BOS, 4, 5)]])
        assert (trace.recorded, trace.replayed) == (2, 2 * count)  # the encoder and the pass
    # One node and sixty, two source tokens and sixty, few candidates and many: the same size.
    Session(backend, [[4] * 60], top_k=2).score([[(BOS, *[4] * 59)]])
    assert (trace.recorded, trace.replayed) == (2, 10)


def test_common_sizes_are_recorded_at_loading_and_no_query_waits_for_one() -> None:
    """Greedy decoding and beams, drafted or not, of queries of several lengths."""
    trace = Tracer(traces=False)
    backend = GraphBackend(tiny_model(0, VOCAB, **VARIANTS["pre"], max_positions=256), record=trace)
    backend.record_common()
    assert len({arena.shape for arena in backend._idle}) == len(COMMON) * len(COMMON_SOURCES)
    recorded = trace.recorded
    for settings in (DecodeSettings(decoder="greedy", n=1, max_len=20), DecodeSettings(n=3, max_len=20)):
        for drafter in (NoDrafts(), Copy()):
            for length in (1, 12, 100):
                sources = [[4 + place % 5 for place in range(length)]]
                decoder = decoders.build_decoder(tuple(sources[0]), settings, drafter)
                top_k = decoders.required_top_k(settings, VOCAB)
                open_decoding(backend, sources, [decoder], drafter, top_k=top_k, max_len=20, budget=30).run_to_end()
    assert (trace.recorded, trace.replayed > 100) == (recorded, True)


def test_a_pass_is_one_copy_in_one_launch_and_one_copy_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted at the tensors, with a replay that computes nothing, as a graph's launch costs the host nothing more."""
    launches, copies = [], []
    backend = GraphBackend(model_of(0, "pre"), record=lambda *_: lambda: launches.append(1))
    session = Session(backend, [[4, 5]], top_k=3)
    session.runner.run(NodeBatch([0], [BOS], [0], [-1]))
    launches.clear()
    for name in ("copy_", "cpu", "to"):
        plain = getattr(torch.Tensor, name)
        monkeypatch.setattr(
            torch.Tensor,
            name,
            lambda *given, _name=name, _plain=plain, **more: (copies.append(_name), _plain(*given, **more))[1],
        )
    session.runner.run(NodeBatch([0] * 3, [4, 5, 6], [1, 2, 2], [0, 1, 1]))
    assert (len(launches), copies) == (1, ["copy_", "cpu"])


@pytest.mark.parametrize("variant", SOME)
def test_the_encoder_is_recorded_for_padded_sizes_up_to_the_models_positions(variant: str) -> None:
    """Sources of many lengths, one after the other in the same arena, also as long as positions go."""
    model, trace = tiny_model(0, VOCAB, **VARIANTS[variant], max_positions=40), Tracer()
    backend, plain = GraphBackend(model, record=trace), TorchBackend(model)
    room = 40 - 2 * int(variant == "source-specials")
    for length in (3, 9, 1, room):
        sources = [[4 + place % 5 for place in range(length)], [5], [6, 7]][: 3 if length > 3 else 2]
        compare(*(Session(one, sources, top_k=VOCAB) for one in (backend, plain)), [[(BOS, 4)]] * len(sources))
        gc.collect()
    assert all(arena.encoder.replay is not None for arena in backend._idle)


def test_idle_arenas_are_kept_up_to_a_number_of_bytes_the_last_used_longest() -> None:
    """A batch that shrinks goes through many shapes, and none of them may lose its recordings."""
    trace = Tracer(traces=False)
    backend = GraphBackend(model_of(0, "pre"), record=trace)
    for _ in range(3):
        for rows in range(1, 14):
            Session(backend, [[4]] * rows, top_k=3).score([[(BOS, 4)]] * rows)
        gc.collect()
    shapes = len({rows_for(rows) for rows in range(1, 14)})
    assert (trace.recorded, len(backend._idle)) == (2 * shapes, shapes)
    largest = max(arena.bytes for arena in backend._idle)
    backend.idle_bytes = largest
    backend.release_arenas([])
    assert [arena.shape[0] for arena in backend._idle] == [16]
    Session(backend, [[4]], top_k=3).score([[(BOS, 4)]])
    gc.collect()
    assert [arena.shape[0] for arena in backend._idle] == [1]


def test_a_pass_that_cannot_be_recorded_is_computed_all_the_same() -> None:
    def refuse(function: Function, device: torch.device) -> Function:
        raise RuntimeError("out of streams")

    backend, plain = GraphBackend(model_of(0, "pre"), record=refuse), TorchBackend(model_of(0, "pre"))
    with pytest.warns(UserWarning, match="out of streams"):
        sessions = [Session(one, [[4, 5]], top_k=3) for one in (backend, plain)]
    with pytest.warns(UserWarning, match="out of streams"):
        compare(*sessions, [[(BOS,)]])
    compare(*sessions, [[(BOS, 4)]])
    compare(*sessions, [[(BOS, 4, 5, 6)]])


def test_what_an_earlier_session_left_does_not_matter() -> None:
    """Half precision overflows; what is masked would still turn a sum into NaN."""
    backend = GraphBackend(model_of(0, "pre"), record=lambda function, _: function)
    session = Session(backend, [[4, 5]], top_k=3)
    with torch.inference_mode():
        session.runner.cache.fill_(float("nan"))  # type: ignore[union-attr]
        session.runner.memory_cache.fill_(float("nan"))  # type: ignore[union-attr]
    del session
    sessions = [Session(one, [[6]], top_k=3) for one in (backend, TorchBackend(model_of(0, "pre")))]
    compare(*sessions, [[(BOS, 4)]])


@pytest.mark.parametrize("variant", ["pre", "source-specials"])
def test_states_are_those_of_the_plain_runner(variant: str) -> None:
    model, trace = model_of(0, variant), Tracer()
    sources = [[4, 5, 6], [7]]
    found, expected = (
        Session(one, sources, top_k=4, states=True) for one in (GraphBackend(model, record=trace), TorchBackend(model))
    )
    prefixes = [(BOS, 4)[:end] for end in (1, 2)] + [(BOS, 4, 4), (BOS, 4, 4, 5)]
    for prefix in prefixes:
        compare(found, expected, [[prefix], [prefix]])
    assert trace.replayed
    for prefix in prefixes:  # also those of passes long ago
        for source in map(tuple, sources):
            states = found.hidden_state(source, prefix), expected.hidden_state(source, prefix)
            torch.testing.assert_close(*states, rtol=0, atol=1e-12)


def test_graphs_are_refused_without_a_gpu() -> None:
    place = RuntimeConfig.find(device="cpu", dtype="fp32", runtime="graphs", threads=1)
    with pytest.raises(ValueError, match="is not computed by the graphs runtime on cpu"):
        place.backend(None)  # type: ignore[arg-type]
