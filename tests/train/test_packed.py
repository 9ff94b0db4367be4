"""The trainer behind the shipped models: its batches, losses and steps are those of padded training."""

import copy
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.command_line import call
from helpers.small import MERGED, QUERIES, TOKENIZER
from programs import gpu_training
from torch.nn.functional import cross_entropy

from chemspec.data.arrays import Pairs, RaggedArray
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import TrainSettings, preset_config
from chemspec.tokenizer import PAD, Tokenizer
from chemspec.train import optim
from chemspec.train.packed import Optimizer, PackedModel, Step
from chemspec.train.packed_batches import Shape, build_batch, pack
from chemspec.train.packed_run import PackedRun

SHAPE = Shape(sources=120, targets=110, sequences=40)


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
    batches = list(pack(pairs, range(len(pairs)), SHAPE))
    assert sorted(index for batch in batches for index in batch) == list(range(len(pairs)))
    assert all(
        pairs.sources.lengths[batch].sum() <= 120 and pairs.targets.lengths[batch].sum() <= 110 for batch in batches
    )


def test_a_sequence_that_no_batch_can_hold_is_refused() -> None:
    long = RaggedArray.pack([[4] * 300])
    with pytest.raises(ValueError, match="a sequence of 301 tokens"):
        next(pack(Pairs(long, long), [0], Shape()))


def test_batches_have_the_proportions_of_the_data() -> None:
    data = Pairs(RaggedArray.pack([[4] * 10] * 3), RaggedArray.pack([[4] * 29] * 3))  # and eos
    shape = Shape.of([data, data])
    assert (shape.sources, shape.targets) == (16_384, 48_896)


def test_losses_and_gradients_are_those_of_padded_batches(pairs: Pairs, model: Transformer) -> None:
    packed = PackedModel(model, SHAPE)
    for indices in pack(pairs, range(len(pairs)), SHAPE):
        model.zero_grad()
        total, count = packed.loss(build_batch(pairs, indices, SHAPE))
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
    ours, theirs = Optimizer(model), optim.build_optimizer(other, settings)
    theirs.parts[0].dtype = torch.float32  # type: ignore[attr-defined]  # as ours on a CPU
    ours.lr.fill_(settings.lr)
    step = Step(PackedModel(model, SHAPE), ours)
    for indices in pack(pairs, range(len(pairs)), SHAPE):
        step(build_batch(pairs, indices, SHAPE))
        source, target = pairs.batch(indices)
        theirs.zero_grad()
        logits = other(source, target[:, :-1])
        cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD).backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), settings.clip)
        theirs.step()
    for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
        if "in_proj_bias" not in name:  # softmax ignores the bias of keys, so AdamW follows the noise of its gradient
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


def data_folder(folder: Path, tokenizer: Tokenizer) -> Path:
    folder.mkdir()
    tokenizer.save(folder / "vocab.json")
    texts = RaggedArray.pack([tokenizer.encode(text) for text in QUERIES])
    for name in ("train", "val"):
        Pairs(texts, texts).save(folder / f"{name}.npz")
    return folder


def started(folder: Path) -> Path:
    torch.manual_seed(0)
    start = Transformer(preset_config("tiny", vocab_size=len(TOKENIZER)))
    checkpoint.save(folder, start, TOKENIZER, task="forward")
    return folder


def weights_of(folder: Path) -> list[torch.Tensor]:
    return list(checkpoint.load(folder).model.state_dict().values())


SETTINGS = TrainSettings(tokens=240, steps=6, warmup=1, lr=1e-3, dropout=0.1, ema=0.5)


def test_a_vocabulary_with_merges_goes_on_from_one_without(tmp_path: Path) -> None:
    data = data_folder(tmp_path / "data", MERGED)
    made = PackedRun(started(tmp_path / "start"), [data, data], tmp_path / "run", SETTINGS).train()
    assert checkpoint.load(made).tokenizer == MERGED


def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, data = started(tmp_path / "start"), data_folder(tmp_path / "data", TOKENIZER)
    whole = PackedRun(start, [data], tmp_path / "whole", SETTINGS).train()

    def interrupted(self: PackedRun, batch: torch.Tensor, rate: float, progress: float) -> torch.Tensor:
        if progress == 2 / SETTINGS.steps:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, batch, rate, progress)

    step = PackedRun.take_step
    with monkeypatch.context() as patch:
        patch.setattr(PackedRun, "take_step", interrupted)
        with pytest.raises(KeyboardInterrupt, match=r"stopped after step 3; .*last\.ckpt resumes it"):
            PackedRun(start, [data], tmp_path / "run", SETTINGS).train()
    with pytest.raises(FileExistsError, match="already contains"):
        PackedRun(start, [data], tmp_path / "run", SETTINGS).train(resume=False)
    told: list[str] = []
    resumed = PackedRun(start, [data], tmp_path / "run", SETTINGS, tell=told.append).train()
    assert "goes on after step 3" in told
    assert all(torch.equal(*pair) for pair in zip(weights_of(whole), weights_of(resumed), strict=True))


def test_the_result_is_the_running_mean(tmp_path: Path) -> None:
    start, data = started(tmp_path / "start"), data_folder(tmp_path / "data", TOKENIZER)
    slow = TrainSettings(tokens=240, steps=3, warmup=1, lr=1e-3, ema=0.99999)
    made = PackedRun(start, [data], tmp_path / "run", slow).train()
    for ours, theirs in zip(weights_of(made), weights_of(start), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_the_command_for_a_gpu_begins_on_a_cpu(tmp_path: Path) -> None:
    start, data = started(tmp_path / "start"), data_folder(tmp_path / "data", TOKENIZER)
    words = "--recipe", "forward-gpu", "--start", start, "--data", data, "--out", tmp_path / "run"
    done = call("train", *words, "--steps", 2, "--tokens", 240, "--minutes", 8)
    assert done.exit_code == 0, done.output
    assert checkpoint.load(tmp_path / "run" / "model").config.encoder_layers == 8
    assert "end: 2 steps, validation loss" in done.stderr
    lacking = call("train", *words[:2], *words[4:])
    assert lacking.exit_code == 2 and "give it with --start" in lacking.stderr


def test_the_benchmark_for_a_gpu_runs_on_a_cpu(tmp_path: Path) -> None:
    """All ways but those that a compiler is needed for, and they learn alike."""
    words = [
        "--device",
        "cpu",
        "--preset",
        "tiny",
        "--tokens",
        "480",
        "--pairs",
        "40",
        "--steps",
        "3",
        "--ways",
        "plain",
    ]
    rows = gpu_training.main([*words, "running mean", "bf16 residual", "--out", str(tmp_path / "out.jsonl")])
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 3
    assert rows[0]["loss"] == rows[1]["loss"] == pytest.approx(rows[2]["loss"], rel=0.02)


def test_the_loss_is_one_graph_for_the_compiler(pairs: Pairs, model: Transformer) -> None:
    """What `torch.compile` would fuse on a GPU has no break at which it goes back to Python."""
    packed = PackedModel(model, SHAPE)
    batch = build_batch(pairs, next(pack(pairs, range(len(pairs)), SHAPE)), SHAPE)
    compiled = torch.compile(packed.loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(batch)[0], packed.loss(batch)[0])
