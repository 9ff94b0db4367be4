"""The runner in numpy computes what the model computes, whatever else is in the pass."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers.tiny import tiny_model
from hypothesis import given
from hypothesis import strategies as st
from test_session import VARIANTS, VOCAB, Round, check, scripts

from chemspec.model.runner import MaskedBatch, NodeBatch
from chemspec.model.runners.numpy_runner import NumpyBackend, best_tokens
from chemspec.model.transformer import Transformer
from chemspec.types import PluginError


@cache
def tiny(variant: str) -> tuple[NumpyBackend, Transformer]:
    model = tiny_model(0, VOCAB, **VARIANTS[variant]).float()
    return NumpyBackend(model.weights), model


@given(scripts(), st.sampled_from(sorted(VARIANTS)))
def test_numpy_gives_the_scores_of_the_model(script: tuple[list[list[int]], list[Round]], variant: str) -> None:
    backend, model = tiny(variant)
    check(backend, model, *script, within=5e-4)


def test_equal_scores_are_ordered_by_id() -> None:
    ids, log_probs = best_tokens(np.array([[1, 3, 3, 0, 3], [0, 0, 0, 0, 0]], np.float32), 4)
    assert ids.tolist() == [[1, 2, 4, 0], [0, 1, 2, 3]]
    assert log_probs[1].tolist() == pytest.approx([np.log(0.2)] * 4)


@pytest.mark.parametrize(("tokens", "depths"), [([VOCAB], [0]), ([-1], [0]), ([1], [1024])])
def test_what_no_table_has_is_refused(tokens: list[int], depths: list[int]) -> None:
    backend, _ = tiny("pre")
    with pytest.raises(PluginError, match=f"beyond {VOCAB - 1}"):
        backend.open([[5]], top_k=2).run(NodeBatch([0], tokens, depths, [-1]))


def test_blocks_of_mask_tokens_are_refused() -> None:
    backend, _ = tiny("pre")
    with pytest.raises(PluginError, match="no blocks of mask tokens"):
        backend.open([[5]], top_k=2).run(MaskedBatch([0, 0], [1, 4], [0, 1], [-1, 0], [-1, 0]))
