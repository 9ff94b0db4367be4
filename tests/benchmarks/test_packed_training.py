"""The script that trained the shipped models last: batches, losses and steps are those of `chemspec train`."""

import copy
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from paths import ROOT
from small import MERGED, QUERIES, TOKENIZER
from torch.nn.functional import cross_entropy

from chemspec.data.arrays import Pairs, RaggedArray
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import TrainSettings, preset_config
from chemspec.tokenizer import PAD
from chemspec.train import optim

SCRIPT = runpy.run_path(str(ROOT / "assets" / "docs" / "recipes" / "packed_training.py"))
SHAPE = SCRIPT["Shape"](sources=120, targets=110, sequences=40)


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    rng = np.random.default_rng(0)
    sides = ([rng.integers(4, 14, size=rng.integers(1, 30)).tolist() for _ in range(60)] for _ in range(2))
    return Pairs(*map(RaggedArray.pack, sides))


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    return Transformer(preset_config("tiny", vocab_size=14))


def test_batches_hold_every_pair_once(pairs: Pairs) -> None:
    batches = list(SCRIPT["pack"](pairs, range(len(pairs)), SHAPE))
    assert sorted(index for batch in batches for index in batch) == list(range(len(pairs)))
    assert all(
        pairs.sources.lengths[batch].sum() <= 120 and pairs.targets.lengths[batch].sum() <= 110 for batch in batches
    )


def test_a_sequence_that_no_batch_can_hold_is_refused() -> None:
    long = RaggedArray.pack([[4] * 300])
    with pytest.raises(ValueError, match="a sequence of 301 tokens"):
        next(SCRIPT["pack"](Pairs(long, long), [0], SCRIPT["Shape"]()))


def test_batches_have_the_proportions_of_the_data() -> None:
    data = Pairs(RaggedArray.pack([[4] * 10] * 3), RaggedArray.pack([[4] * 29] * 3))  # and eos
    shape = SCRIPT["Shape"].of([data, data])
    assert (shape.sources, shape.targets) == (16_384, 48_896)


def test_losses_and_gradients_are_those_of_padded_batches(pairs: Pairs, model: Transformer) -> None:
    packed = SCRIPT["PackedModel"](model, SHAPE)
    for indices in SCRIPT["pack"](pairs, range(len(pairs)), SHAPE):
        model.zero_grad()
        total, count = packed.loss(SCRIPT["build_batch"](pairs, indices, SHAPE))
        total.backward()
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        source, target = pairs.batch(indices)
        following = target[:, 1:].flatten()
        expected = cross_entropy(
            model(source, target[:, :-1]).flatten(0, 1), following, ignore_index=PAD, reduction="sum"
        )
        expected.backward()
        assert int(count) == int((following != PAD).sum())
        torch.testing.assert_close(total, expected)
        torch.testing.assert_close(gradients, [p.grad for p in model.parameters()], rtol=1e-3, atol=1e-4)


def test_steps_are_those_of_the_optimiser(pairs: Pairs, model: Transformer) -> None:
    other = copy.deepcopy(model)
    settings = TrainSettings(lr=1e-3)
    ours, theirs = SCRIPT["Optimizer"](model), optim.build_optimizer(other, settings)
    theirs.parts[0].dtype = torch.float32  # type: ignore[attr-defined]  # as ours on a CPU
    ours.lr.fill_(settings.lr)
    step = SCRIPT["Step"](SCRIPT["PackedModel"](model, SHAPE), ours)
    for indices in SCRIPT["pack"](pairs, range(len(pairs)), SHAPE):
        step(SCRIPT["build_batch"](pairs, indices, SHAPE))
        source, target = pairs.batch(indices)
        theirs.zero_grad()
        logits = other(source, target[:, :-1])
        cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD).backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), settings.clip)
        theirs.step()
    for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
        if "in_proj_bias" not in name:  # softmax ignores the bias of keys, so AdamW follows the noise of its gradient
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


def test_a_vocabulary_with_merges_goes_on_from_one_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    start = Transformer(preset_config("tiny", vocab_size=len(TOKENIZER)))
    checkpoint.save(tmp_path / "start", start, TOKENIZER, task="retro")
    (tmp_path / "data").mkdir()
    MERGED.save(tmp_path / "data" / "vocab.json")
    texts = RaggedArray.pack([MERGED.encode(text) for text in QUERIES])
    for name in ("train", "val"):
        Pairs(texts, texts).save(tmp_path / "data" / f"{name}.npz")
    monkeypatch.setattr(SCRIPT["Shape"], "sources", 120)
    monkeypatch.setattr(SCRIPT["Shape"], "targets", 120)
    words = ["--start", tmp_path / "start", "--data", tmp_path / "data", "--out", tmp_path / "run", "--minutes", 0.02]
    SCRIPT["train"](SCRIPT["parse"]([*map(str, words), "--workers", "0", "--warmup", "1"]))
    assert checkpoint.load(tmp_path / "run" / "model").tokenizer == MERGED
