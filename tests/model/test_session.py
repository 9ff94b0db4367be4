"""The cache law: a session says of a prefix what the model says when it reads it anew."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from helpers.compilers import skip_without_compiler
from helpers.table import Table
from helpers.tiny import tiny_model
from hypothesis import given
from hypothesis import strategies as st

from chemspec.model.runner import Backend, CompactionThreshold
from chemspec.model.runners.native.runner import NativeBackend
from chemspec.model.runners.numpy_runner import NumpyBackend
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.testing import Target, naive_reader
from chemspec.tokenizer import BOS
from chemspec.types import Prefix

VOCAB = 12
EAGER = CompactionThreshold(0.0, -(10**6), 0)  # removes every unreachable node at once

VARIANTS = {
    "pre": {},
    "post": {"norm_first": False},
    "pre-bare": {"final_norms": False, "scale_embedding": False},
    "post-bare": {"norm_first": False, "final_norms": False},
    "gelu-untied": {"activation": "gelu", "shared_embedding": False},
    "tied-target": {"shared_embedding": False, "tied_output": True, "output_bias": False},
    "source-specials": {"source_specials": True, "norm_first": False, "decoder_layers": 1},
    "one-head": {"heads": 1, "encoder_layers": 1, "decoder_layers": 3, "output_bias": False},
    "bart": {
        "norm_first": False,
        "final_norms": False,
        "activation": "gelu",
        "embedding_norm": True,
        "stored_positions": True,
        "shared_positions": False,
        "source_first": 5,
        "source_last": 2,
        "heads": 4,
        "forced_first": 7,
    },
    "t5": {
        "rms_norm": True,
        "gated": True,
        "activation": "gelu_tanh",
        "heads": 3,  # no divisor of 16
        "head_width": 6,
        "relative_positions": 3,  # less than texts are long
        "scale_embedding": False,
        "source_last": 2,
    },
    "onmt-relative": {"relative_vectors": 3, "heads": 2, "head_width": 16},
    "gpt2": {"encoder_layers": 0, "activation": "gelu_tanh", "stored_positions": True, "output_bias": False},
    "llama": {
        "encoder_layers": 0,
        "activation": "silu",
        "gated": True,
        "rms_norm": True,
        "rotary_base": 100.0,
        "heads": 2,
        "source_first": 5,
        "scale_embedding": False,
    },
}


@dataclass(frozen=True)
class Round:
    """One pass, and what happens after it; prefixes are chosen among those grown by it."""

    asked: tuple[tuple[Prefix, ...], ...]  # for every query
    requested: tuple[Prefix, ...] | None  # at the compaction
    finished: frozenset[int]


tokens = st.integers(2, 5)  # few, so that prefixes share beginnings; eos among them, a session does not care
prefixes = st.lists(tokens, max_size=7).map(lambda tail: (BOS, *tail))


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[list[int]], list[Round]]:
    """Ragged sources, and rounds of scoring, compacting and releasing."""
    sources = draw(st.lists(st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=7), min_size=1, max_size=6))
    rounds = [
        Round(
            tuple(tuple(draw(st.lists(prefixes, max_size=4))) for _ in sources),
            draw(st.none() | st.lists(prefixes, min_size=1, max_size=2).map(tuple)),
            draw(st.frozensets(st.integers(0, len(sources) - 1), max_size=2)),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]
    return sources, rounds


def check(backend: Backend, model: Target, sources: list[list[int]], rounds: list[Round], *, within: float) -> None:
    """Play a script and compare every score given out with the naive one, worked out in fp64 unless it must be equal.

    These models are ill-conditioned: in fp32 the naive decoder itself is off by up to 2e-4.
    """
    if isinstance(model, Transformer) and within:
        model = copy.deepcopy(model).double()
    session = Session(backend, sources, top_k=VOCAB)
    session.compaction_threshold = EAGER  # compact whenever anything can go
    reader = cache(lambda query: naive_reader(model, sources[query]))
    naive = cache(lambda query, prefix: reader(query)([prefix])[0].numpy())
    for step in rounds:
        asked = [[(BOS,), *step.asked[query]] for query in session.queries]
        held = {query: set(session.trees[query].slots) for query in session.queries}
        if all(set(row) <= held[query] for query, row in zip(session.queries, asked, strict=True)):
            continue
        answers = session.score(asked)
        for query, row, scores in zip(session.queries, asked, answers, strict=True):
            ancestors = {prefix[:end] for prefix in row for end in range(1, len(prefix) + 1)}
            assert set(scores) == ancestors - held[query]  # each once, and nothing else
            for prefix, (ids, log_probs) in scores.items():
                expected = naive(query, prefix)
                assert sorted(ids) == list(range(len(expected)))
                assert log_probs == sorted(log_probs, reverse=True)
                np.testing.assert_allclose(log_probs, expected[ids], rtol=0, atol=within)
        if step.requested is not None:
            session.compact(dict.fromkeys(session.queries, step.requested))
            for tree in session.trees.values():
                assert sorted(tree.slots.values()) == list(range(len(tree.slots)))
        session.release(step.finished)
        if not session.queries:
            break


@cache
def model_of(seed: int, variant: str) -> Transformer:
    return tiny_model(seed, VOCAB, **VARIANTS[variant])


@given(scripts(), st.integers(0, 2), st.sampled_from(sorted(VARIANTS)))
def test_a_session_gives_the_scores_of_a_model_without_cache(
    script: tuple[list[list[int]], list[Round]], seed: int, variant: str
) -> None:
    model = model_of(seed, variant)
    check(TorchBackend(model), model, *script, within=1e-9)


@given(scripts(), st.integers(0, 2))
def test_a_session_spells_every_prefix_to_its_runner(script: tuple[list[list[int]], list[Round]], seed: int) -> None:
    table = Table(seed, vocab_size=VOCAB)
    check(table, table, *script, within=0)


def test_a_cache_grows_as_far_as_it_must() -> None:
    """Far more nodes than a runner starts with, in wide passes and narrow ones, unevenly."""
    model = model_of(0, "pre")
    session = Session(TorchBackend(model), [[4, 5, 6], [7]], top_k=VOCAB)
    rng = np.random.default_rng(0)
    reader = cache(lambda source: naive_reader(model, source))
    naive = cache(lambda source, prefix: reader(source)([prefix])[0].numpy())
    for width in (40, 1, 70, 2, 130, 1):
        asked = [[(BOS, *rng.integers(2, VOCAB, 9).tolist()) for _ in range(n)] for n in (width, 1)]
        for source, scores in zip(((4, 5, 6), (7,)), session.score(asked), strict=True):
            for prefix in [*scores][-20:]:
                ids, log_probs = scores[prefix]
                np.testing.assert_allclose(log_probs, naive(source, prefix)[ids], rtol=0, atol=1e-4)
    assert len(session.trees[0].slots) > 1000


@pytest.mark.parametrize("kind", ["torch", "table"])
def test_ties_go_to_the_smaller_id(kind: str) -> None:
    if kind == "table":
        backend: Backend = Table(0, vocab_size=VOCAB, levels=1)
        expected = [*range(2, VOCAB), 0, 1]
    else:
        model = tiny_model(0, VOCAB, tied_output=False).float()
        model.output.weight.zero_()
        model.output.bias.zero_()
        model.output.bias[7] = 1.0
        expected = [7, *(token for token in range(VOCAB) if token != 7)]
        backend = TorchBackend(model)
    for top_k in (VOCAB, 5):
        (scores,) = Session(backend, [[4, 5]], top_k=top_k).score([[(BOS, 4), (BOS, 5, 6)]])
        assert all(list(score.ids) == expected[:top_k] for score in scores.values())


@pytest.mark.parametrize("runtime", ["torch", "native", "numpy"])
@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_states_are_what_the_output_layer_reads(variant: str, runtime: str) -> None:
    model = model_of(0, variant)
    backend: Backend = TorchBackend(model)
    if runtime == "native":  # computes in fp32
        skip_without_compiler()
        model = copy.deepcopy(model).float()
        backend = NativeBackend(model, threads=1)
    elif runtime == "numpy":
        model = copy.deepcopy(model).float()
        backend = NumpyBackend(model.weights)
    sources = [(4, 5, 6), (7, 8)]
    session = Session(backend, sources, top_k=VOCAB, states=True)
    session.score([[(BOS, 5)], [(BOS, 4, 7, 8)]])
    session.score([[(BOS, 5, 6)], [(BOS, 4, 9)]])
    for source, path in ((sources[0], (BOS, 5, 6)), (sources[1], (BOS, 4, 7, 8)), (sources[1], (BOS, 4, 9))):
        read = model.config.encoder_ids(source)
        expected = model.states(torch.tensor([path]), *model.encode(torch.tensor([read])))[0]
        for length in range(1, len(path) + 1):
            state = torch.as_tensor(session.hidden_state(source, path[:length]))
            torch.testing.assert_close(state, expected[length - 1], rtol=0, atol=1e-9 if runtime == "torch" else 5e-4)
    assert session.hidden_state(sources[0], (BOS, 9)) is None
    plain = Session(backend, sources[:1], top_k=2)
    plain.score([[(BOS, 5)]])
    assert plain.hidden_state(sources[0], (BOS, 5)) is None
