"""States of the encoder and attention of the last layer, beside those of the network in torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.small import QUERIES, TOKENIZER, tiny_folder

pytest.importorskip("torch")

import torch

from chemspec.engine.engine import Engine
from chemspec.model import checkpoint, transformer
from chemspec.tokenizer import BOS, EOS


@pytest.fixture(scope="module", params=[{}, {"norm_first": False}, {"relative_positions": 8}], ids=str)
def folder(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("model"), seed=4, **request.param)


def test_states_and_attention_are_those_of_the_network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.load(folder, threads=1)
    network = checkpoint.load(folder).model.float()
    seen: list[Any] = []
    compute = transformer.attention

    def watched(q: Any, k: Any, v: Any, mask: Any, bias: Any = None) -> Any:
        scores = q @ k.transpose(-1, -2) / k.shape[-1] ** 0.5
        seen.append(torch.softmax((scores if bias is None else scores + bias).masked_fill(~mask, -torch.inf), -1))
        return compute(q, k, v, mask, bias)

    monkeypatch.setattr(transformer, "attention", watched)
    for query in QUERIES:
        source, answer = network.config.encoder_ids(engine.prepare(query).ids), "CC(=O)Cl.N"
        ids = TOKENIZER.encode_answer(answer)
        with torch.inference_mode():
            memory, real = network.encode(torch.tensor([source]))
            network.decode(torch.tensor([[BOS, *ids]]), memory, real)
        found, shown = engine.embed(query), engine.attention(query, answer)
        np.testing.assert_allclose(found.vectors, memory[0].numpy(), atol=2e-5)
        np.testing.assert_allclose(found.mean, memory[0].numpy().mean(axis=0), atol=2e-5)
        np.testing.assert_allclose(shown.heads, seen[-1][0].numpy(), atol=2e-5)
        np.testing.assert_allclose(shown.weights.sum(axis=1), 1, atol=1e-5)
        assert shown.weights.shape == (len(ids) + 1, len(source))
        assert shown.query_tokens == found.tokens and len(found.tokens) == len(source)
        assert shown.answer_tokens == (*(TOKENIZER.tokens[index] for index in ids), "end") and EOS not in ids


def test_lists_and_what_cannot_be_read(folder: Path) -> None:
    with Engine.load(folder, threads=1) as engine:
        first, second = engine.embed(["CCO", "CN"])
        np.testing.assert_array_equal(first.vectors, engine.embed("CCO").vectors)
        assert len(second.tokens) == len(second.vectors)
        for call in (lambda: engine.embed("C1CC"), lambda: engine.attention("CCO", "[Uus]")):
            with pytest.raises(ValueError, match=r"ring|Uus"):
                call()
    with pytest.raises(ValueError, match="closed"):
        engine.embed("CCO")
